//! The command line ahead of the engine, and what it does in earnest.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use super::*;
use crate::delivery::{Secret, Secrets};
use crate::profile::{EnvValue, SecretSource};

fn profile(before: &[&[&str]], secrets: &[&str]) -> Profile {
    let mut profile = crate::config::parse("p", include_str!("../../profiles/qwen35-122b.yaml")).unwrap();
    let words = |command: &&[&str]| command.iter().map(|word| (*word).to_owned()).collect();
    profile.engine.before = before.iter().map(words).collect();
    for name in secrets {
        let source = EnvValue::Secret(SecretSource::Env((*name).to_owned()));
        profile.engine.env.insert((*name).to_owned(), source);
    }
    profile
}

fn argv(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn only_a_profile_that_wants_something_is_wrapped() {
    let engine = argv(&["vllm", "serve", "--", "x"]);
    assert_eq!(wrap(&profile(&[], &[]), engine.clone()), engine);
    assert_eq!(split(&engine), (Prelude::default(), &engine[..]));
    let wrapped = wrap(&profile(&[&["bash", "/p.sh"]], &["A"]), engine.clone());
    assert_eq!(wrapped[4], r#"{"before":[["bash","/p.sh"]],"secrets":"/run/sparkctl/secrets"}"#);
    let prelude =
        Prelude { before: vec![argv(&["bash", "/p.sh"])], secrets: Some(SECRETS_TARGET.to_owned()) };
    assert_eq!(split(&wrapped), (prelude, &engine[..]));
    // Another script of Python's is the engine's own launch.
    let launch = argv(&["python3", "-u", "-c", "\"\"\"The head\"\"\"", "{}", "--", "vllm"]);
    assert_eq!(split(&launch), (Prelude::default(), &launch[..]));
}

/// Runs what is wrapped, with the secrets' file at another place.
fn run(before: &[&[&str]], secrets: Option<&str>, engine: &[&str]) -> (Output, String) {
    let names: &[&str] = if secrets.is_some() { &["A"] } else { &[] };
    let mut wrapped = wrap(&profile(before, names), argv(engine));
    if let Some(file) = secrets {
        wrapped[4] = wrapped[4].replace(SECRETS_TARGET, file);
    }
    let output = Command::new(&wrapped[0]).args(&wrapped[1..]).output().unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    (output, String::from_utf8(said).unwrap())
}

#[test]
fn commands_run_in_order_and_then_the_engine() {
    let before: &[&[&str]] = &[&["sh", "-c", "echo first"], &["sh", "-c", "echo 'second  $0' \"$0\"", "a b"]];
    let (output, said) = run(before, None, &["sh", "-c", "echo engine; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert_eq!(
        said,
        "sparkctl: ahead of the engine, 1 of 2: sh -c 'echo first'\nfirst\n\
         sparkctl: ahead of the engine, 2 of 2: sh -c 'echo '\"'\"'second $0'\"'\"' \"$0\"' 'a b'\nsecond  $0 a b\nengine\n"
    );
}

#[test]
fn a_command_that_fails_ends_it_and_is_named() {
    let cases: &[(&[&str], i32, &str)] = &[
        (&["sh", "-c", "exit 3"], 3, "engine.before[1] failed with exit status 3: sh -c 'exit 3'"),
        (&["sh", "-c", "kill -9 $$"], 137, "engine.before[1] was killed by signal 9: sh -c 'kill -9 $$'"),
        (&["/no/such"], 127, "engine.before[1] cannot be run (No such file or directory): /no/such"),
    ];
    for (command, status, told) in cases {
        let (output, said) = run(&[&["true"], command, &["echo", "third"]], None, &["echo", "engine"]);
        assert_eq!(output.status.code(), Some(*status), "{said}");
        assert!(said.ends_with(&format!("\nsparkctl: {told}\n")), "{said}");
    }
    let (output, said) = run(&[&["true"]], None, &["no-such-engine"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(said.contains("exec: \"no-such-engine\": executable file not found in $PATH"), "{said}");
}

#[test]
fn secrets_are_in_the_environment_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets");
    let values = BTreeMap::from([
        ("A".to_owned(), Secret::from("ä two\nlines".to_owned())),
        ("B".to_owned(), Secret::from("hf_12345678".to_owned())),
    ]);
    std::fs::write(&file, Secrets(values).file().bytes()).unwrap();
    let path = file.display().to_string();
    let engine = ["sh", "-c", "printf '%s|%s' \"$A\" \"$B\"; tr '\\0' ' ' < /proc/$$/cmdline"];
    let (output, said) = run(&[&["sh", "-c", "echo before ${#B}"]], Some(&path), &engine);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("\nbefore 11\nä two\nlines|hf_12345678sh -c "), "{said}");
    assert_eq!(said.matches("hf_12345678").count(), 1, "{said}");

    std::fs::write(&file, "A 41\n").unwrap();
    let (output, said) = run(&[], Some(&path), &engine);
    assert_eq!(
        (output.status.code(), said.as_str()),
        (Some(1), "sparkctl: the secrets cannot be read: their file is not whole\n")
    );
    let (output, said) = run(&[], Some("/no/such"), &engine);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.starts_with("sparkctl: the secrets cannot be read by user "), "{said}");
}
