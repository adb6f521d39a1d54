//! What the layout promises, held against the source itself: layers, doors, and the README's table.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All source files below a file or folder of `src`, by their path in it.
fn sources(below: &str) -> Vec<(String, String)> {
    fn walk(path: &Path, found: &mut Vec<PathBuf>) {
        if path.is_dir() {
            for entry in fs::read_dir(path).expect("the source can be read") {
                walk(&entry.expect("the source can be read").path(), found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path.to_owned());
        }
    }
    let source = root().join("src");
    let mut found = Vec::new();
    walk(&source.join(below), &mut found);
    assert!(!found.is_empty(), "there is no src/{below}");
    found.sort();
    found
        .into_iter()
        .map(|path| {
            let name = path
                .strip_prefix(&source)
                .expect("the source can be read")
                .to_str()
                .expect("the source can be read")
                .to_owned();
            (name, code(&fs::read_to_string(&path).expect("the source can be read")))
        })
        .collect()
}

/// The code of a file: no comments, and nothing behind its own tests.
fn code(text: &str) -> String {
    let inline_tests = text.find("#[cfg(test)]\nmod tests {");
    text[..inline_tests.unwrap_or(text.len())]
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn is_test(name: &str) -> bool {
    name.ends_with("tests.rs") || name.contains("/tests/")
}

/// Whether code names a crate or a path, not as a part of a longer word.
fn names(code: &str, path: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(path).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + path.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

#[test]
fn what_is_pure_touches_nothing() {
    const PURE: &[&str] = &[
        "profile",
        "bench/answer.rs",
        "bench/arrival.rs",
        "bench/compare",
        "bench/compare.rs",
        "bench/counters.rs",
        "bench/figure.rs",
        "bench/gate.rs",
        "bench/metrics.rs",
        "bench/noise.rs",
        "bench/notes.rs",
        "bench/page.rs",
        "bench/piece.rs",
        "bench/plot.rs",
        "bench/prompts.rs",
        "bench/result.rs",
        "bench/sketch.rs",
        "bench/sse.rs",
        "bench/summary.rs",
        "bench/table.rs",
        "bench/vllm_result.rs",
        "bench/workload.rs",
        "container.rs",
        "model",
        "memory",
        "engine",
        "plan",
        "prune/mod.rs",
        "prune/render.rs",
        "pulse",
        "check",
        "diagnose",
        "delivery/mod.rs",
        "delivery/kept.rs",
        "delivery/redact.rs",
        "delivery/secret.rs",
        "cluster/facts.rs",
        "cluster/facts",
        "cluster/parse.rs",
        "cluster/parse",
        "cluster/recorded.rs",
        "fabric/figures.rs",
        "guard/mod.rs",
        "fabric/judge.rs",
        "fabric/judge",
        "fabric/links.rs",
        "fabric/rails.rs",
        "host/command.rs",
        "import",
        "init/draft.rs",
        "init/engines.rs",
        "init/fabric",
        "init/fabric.rs",
        "init/pick.rs",
        "init/render.rs",
        "init/settings.rs",
        "init/survey.rs",
        "init/write.rs",
    ];
    // The one part of something pure that reads.
    const READS: &[&str] = &["import/folder.rs"];
    const TOUCHES: &[&str] = &[
        "tokio",
        "std::fs",
        "std::env",
        "std::process",
        "std::net::TcpStream",
        "std::net::TcpListener",
        "std::net::UdpSocket",
        "SystemTime",
        "std::thread",
        "crate::host",
        "crate::execute",
        "crate::operation",
    ];
    for (name, code) in PURE
        .iter()
        .flat_map(|below| sources(below))
        .filter(|(name, _)| !is_test(name) && !READS.contains(&name.as_str()))
    {
        for path in TOUCHES {
            assert!(!names(&code, path), "src/{name} is pure and names `{path}`");
        }
    }
}

#[test]
fn each_crate_has_one_door() {
    let doors: &[(&str, &[&str])] = &[
        ("openssh", &["host/"]),
        ("bollard", &["host/docker"]),
        ("hyper", &["bench/client.rs"]),
        ("reqwest", &["host/"]),
        ("indicatif", &["report/terminal.rs"]),
        ("saphyr_parser", &["config/reader.rs", "config/syntax.rs"]),
        ("clap", &["cli/"]),
        ("glob", &["cli/ssh_hosts.rs"]),
        ("tar", &["delivery/context.rs"]),
    ];
    for (name, code) in sources("") {
        for (library, through) in doors {
            let allowed = through.iter().any(|door| name.starts_with(door));
            assert!(
                allowed || !names(&code, &format!("{library}::")),
                "src/{name} uses `{library}` past its door"
            );
        }
    }
}

#[test]
fn a_host_knows_no_engine_and_no_plan() {
    for (name, code) in sources("host") {
        for path in ["crate::engine", "crate::plan", "crate::execute", "crate::operation", "crate::diagnose"]
        {
            assert!(!names(&code, path), "src/{name} names `{path}`");
        }
    }
}

#[test]
fn only_the_cli_ends_the_program_or_reads_its_arguments_and_environment() {
    for (name, code) in sources("") {
        let allowed = name.starts_with("cli/") || name == "main.rs";
        assert!(allowed || !names(&code, "process::exit"), "src/{name} ends the program");
        assert!(allowed || !names(&code, "env::args"), "src/{name} reads the arguments");
        // Secrets are fetched from there, and nothing else.
        let allowed = allowed || name == "delivery/read.rs" || is_test(&name);
        assert!(allowed || !names(&code, "env::var"), "src/{name} reads the environment");
    }
}

/// A test that nobody runs proves nothing.
#[test]
fn every_test_is_run_by_make() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("there is a Makefile");
    let words: BTreeSet<&str> = makefile.split_whitespace().collect();
    for entry in fs::read_dir(root().join("tests")).expect("there are tests") {
        let path = entry.expect("there are tests").path();
        let is_target =
            path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a test has a name");
        assert!(!is_target || words.contains(name), "the Makefile does not run the test `{name}`");
    }
}

#[test]
fn the_readme_has_the_exit_codes_of_the_program() {
    let error = fs::read_to_string(root().join("src/error.rs")).expect("the source can be read");
    let body = error
        .split("pub enum Exit {")
        .nth(1)
        .expect("the source can be read")
        .split("\n}")
        .next()
        .expect("the source can be read");
    let program: BTreeSet<u8> = body
        .lines()
        .filter_map(|line| line.trim().split_once(" = ")?.1.strip_suffix(',')?.parse().ok())
        .collect();
    assert!(program.contains(&0) && program.contains(&143), "{program:?}");

    let readme = fs::read_to_string(root().join("README.md")).expect("there is a README.md");
    let after = readme.to_lowercase();
    let section = after.split("\n#").find(|section| {
        section
            .lines()
            .next()
            .is_some_and(|title| title.contains("exit code") || title.contains("exit status"))
    });
    let section = section.expect("README.md has a section on exit codes");
    let told: BTreeSet<u8> = section
        .lines()
        .filter_map(|line| line.trim().strip_prefix('|')?.split('|').next())
        .flat_map(|cell| cell.split(','))
        .filter_map(|number| number.trim().trim_matches('`').parse().ok())
        .collect();
    assert_eq!(told, program, "README.md and error.rs differ");
}
