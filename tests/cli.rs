//! The command line as far as it needs no node: usage, errors, what is known on this machine.

use std::process::Command;

use serde_json::Value;

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs sparkctl with a state folder of its own.
fn run(state: &std::path::Path, args: &[&str]) -> Said {
    let output = Command::new(env!("CARGO_BIN_EXE_sparkctl"))
        .args(args)
        .env("XDG_STATE_HOME", state)
        .env_remove("SPARKCTL_SSH_CONFIG")
        .output()
        .expect("sparkctl starts");
    Said {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    let state = tempfile::tempdir().expect("a temporary folder");
    let commands = [
        "init", "plan", "fit", "deploy", "fetch", "status", "rollback", "releases", "stop", "logs", "import",
        "config", "schema", "facts",
    ];
    for command in commands {
        let said = run(state.path(), &[command, "--help"]);
        assert_eq!(said.code, Some(0), "{command}");
        assert!(said.stdout.contains("Example") && said.stdout.contains("  sparkctl "), "{}", said.stdout);
    }
    assert!(run(state.path(), &["--version"]).stdout.starts_with("sparkctl "));
}

#[test]
fn wrong_usage_is_status_2_and_says_what_to_do() {
    let state = tempfile::tempdir().expect("a temporary folder");
    let cases: &[(&[&str], &str)] = &[
        (&[], "Usage"),
        (&["frobnicate"], "frobnicate"),
        (&["deploy"], "PROFILE"),
        (&["rollback", "--to", "0"], "not a release number"),
        (&["logs", "-f", "--release", "1"], "cannot be used with"),
        (&["deploy", "no/such/file.yaml"], "cannot read the file"),
        (&["status"], "no deployment is known on this machine"),
        (&["status", "nothing"], "no deployment `nothing` is known"),
    ];
    for (args, told) in cases {
        let said = run(state.path(), args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(told), "{args:?}: {}", said.stderr);
        assert_eq!(said.stdout, "", "{args:?}: an error is no result");
    }
}

#[test]
fn an_error_is_a_document_for_programs() {
    let state = tempfile::tempdir().expect("a temporary folder");
    let file = state.path().join("wrong.yaml");
    std::fs::write(&file, "version: 1\nname: x\nclustr: {}\n").expect("it is written");
    let said = run(state.path(), &["--output", "json", "plan", &file.display().to_string()]);
    assert_eq!(said.code, Some(2));
    let document: Value = serde_json::from_str(&said.stdout).expect("a document");
    assert_eq!((&document["format"], &document["exit"]), (&Value::from(1), &Value::from(2)));
    let places = document["details"].as_array().expect("the mistakes");
    let wrong_key =
        places.iter().find(|mistake| mistake["message"].as_str().is_some_and(|m| m.contains("clustr")));
    assert_eq!(wrong_key.expect("the wrong key is told")["line"], 3, "{document:#}");
}

#[test]
fn what_is_known_is_named() {
    let state = tempfile::tempdir().expect("a temporary folder");
    let know = |name: &str, text: &str| {
        let folder = state.path().join("sparkctl").join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("profile.json"), text).expect("it is written");
    };
    know("one", "{}");
    // One that cannot be read is told with its file.
    let said = run(state.path(), &["status"]);
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("one/profile.json"), "{}", said.stderr);
    know("two", "{}");
    let said = run(state.path(), &["status"]);
    assert!(
        said.stderr.contains("several deployments") && said.stderr.contains("one, two"),
        "{}",
        said.stderr
    );
    assert!(run(state.path(), &["stop", "three"]).stderr.contains("known are: one, two"));
}

/// One file over another, a variable, and what is set: each is told with its place, and shown as it is in the end.
#[test]
fn the_effective_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let base = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/qwen35-122b.yaml");
    let child = folder.path().join("child.yaml");
    let text =
        format!("extends: {base}\nname: ${{CHILD}}\nengine:\n  env: {{ HF_TOKEN: {{ env: CHILD }} }}\n");
    std::fs::write(&child, text).expect("it is written");
    let child = child.display().to_string();
    let set = "cluster.nodes[spark2].fabric=192.168.200.14";
    let config = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sparkctl"))
            .args([&["config", &child, "--set", set], args].concat())
            .env("CHILD", "grown")
            .output()
            .expect("sparkctl starts");
        (
            output.status.code(),
            String::from_utf8(output.stdout).expect("text"),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, shown, said) = config(&["--origins"]);
    assert_eq!(code, Some(0), "{said}");
    for (begin, end) in [
        ("name: grown ", format!("# ${{CHILD}}, {child}:2")),
        ("      fabric: 192.168.200.14 ", "# --set".to_owned()),
        ("  memory_fraction: 0.8 ", format!("# {base}:19")),
        ("  data_parallel: 1 ", "# default".to_owned()),
        // A secret stands there as where it comes from.
        ("      env: CHILD ", format!("# {child}:4")),
    ] {
        assert!(
            shown.lines().any(|line| line.starts_with(begin) && line.ends_with(&end)),
            "{begin}{end}\n{shown}"
        );
    }
    // What is shown is a profile, and the same one.
    let again = folder.path().join("again.yaml");
    std::fs::write(&again, &shown).expect("it is written");
    let json = |args: &[&str]| {
        let said = run(folder.path(), args);
        let document: Value = serde_json::from_str(&said.stdout).expect("a document");
        assert_eq!(document["format"], 1);
        document["profile"].clone()
    };
    let (_, document, _) = config(&["--output", "json"]);
    let document: Value = serde_json::from_str(&document).expect("a document");
    assert_eq!(json(&["config", &again.display().to_string(), "--output", "json"]), document["profile"]);

    for command in ["plan", "deploy", "config"] {
        let said = run(folder.path(), &[command, base, "--set", "engine.memory=x", "--set", "serve.port=0"]);
        assert_eq!(said.code, Some(2), "{command}");
        let told = "  | serve.port=0\n  |            ^";
        assert!(
            said.stderr.contains(told) && said.stderr.contains("did you mean `memory_fraction`?"),
            "{}",
            said.stderr
        );
    }
}

#[test]
fn the_schema_is_json() {
    let said = run(std::path::Path::new("/nowhere"), &["schema"]);
    let schema: Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(
        (said.code, &schema["$schema"]),
        (Some(0), &Value::from("https://json-schema.org/draft/2020-12/schema"))
    );
}

/// Where the record of a run cannot be kept, nothing is begun.
#[test]
fn a_state_folder_that_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("it is written");
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/qwen35-122b.yaml");
    let said = run(&file, &["deploy", profile]);
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    assert!(
        said.stderr.contains("cannot write to") && said.stderr.contains("nothing was changed"),
        "{}",
        said.stderr
    );
}

/// A profile with these lines at the end of `engine`, and at its own end.
fn profile_with(folder: &std::path::Path, engine: &str, rest: &str) -> String {
    let text = include_str!("../profiles/qwen35-122b.yaml");
    let text = text.replace("host: 10.1.230.18", "host: nowhere.invalid-18");
    let text = text.replace("  env: {}\n", engine) + rest;
    let file = folder.join("profile.yaml");
    std::fs::write(&file, text).expect("it is written");
    file.display().to_string()
}

/// Files and secrets that are not to be had are told before any node is asked.
#[test]
fn what_cannot_be_read_here_is_told_first() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = "  env: { A: { command: [sh, -c, \"echo no agent >&2; exit 4\"] }, B: { file: token } }\n";
    let file = profile_with(
        folder.path(),
        engine,
        "\nfiles: [{ source: chat.jinja, target: /sparkctl/chat.jinja }]\n",
    );
    let text = std::fs::read_to_string(&file).expect("it was written");
    let place = |key: &str, column: usize| {
        let line = text.lines().position(|line| line.starts_with(key)).expect("it is there");
        format!("profile.yaml:{}:{column}\n", line + 1)
    };
    for command in ["plan", "deploy"] {
        let said = run(folder.path(), &[command, &file]);
        assert_eq!(said.code, Some(2), "{}", said.stderr);
        let told = format!("there is no file `{}/chat.jinja`", folder.path().display());
        assert!(said.stderr.contains(&told), "{}", said.stderr);
        for told in
            [place("files:", 19), place("  env:", 13), "ended with 4: no agent".into(), "/token`".into()]
        {
            assert!(said.stderr.contains(&told), "{told}: {}", said.stderr);
        }
        assert!(!said.stderr.contains("nowhere"), "a node was asked: {}", said.stderr);
    }
}

/// Half an answer on a full disk is no success; a reader that went away is.
#[test]
fn an_answer_that_is_lost_is_told() {
    let annotated = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/annotated.yaml");
    for args in [&["schema"][..], &["config", annotated], &["config", annotated, "--output", "json"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        let mut command = Command::new(env!("CARGO_BIN_EXE_sparkctl"));
        let output = command.args(args).stdout(full).output().expect("it starts");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            args.contains(&"json") || said.contains("could not be written: No space left"),
            "{args:?}: {said}"
        );

        let mut child = Command::new(env!("CARGO_BIN_EXE_sparkctl"))
            .args(args)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{args:?}");
    }
}

#[test]
fn a_secret_is_not_kept_on_this_machine() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engine = "  env: { A: { command: [echo, hf_Zq81RtYxWv] }, B: { file: token } }\n";
    std::fs::write(folder.path().join("token"), "hf_from_a_file\n").expect("it is written");
    let file = profile_with(folder.path(), &engine.replace("[echo, hf_Zq81", "[echo, hf_, Zq81"), "");
    let said = run(folder.path(), &["-vv", "deploy", &file]);
    assert_eq!(said.code, Some(7), "{}", said.stderr);
    let mut kept = 0;
    let mut folders = vec![folder.path().join("sparkctl")];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            kept += 1;
            let text = std::fs::read_to_string(&path).expect("it can be read");
            for value in ["hf_ Zq81RtYxWv", "hf_from_a_file"] {
                assert!(!text.contains(value), "{}", path.display());
                assert!(!said.stderr.contains(value) && !said.stdout.contains(value), "{}", said.stderr);
            }
        }
    }
    assert!(kept > 0, "nothing was kept at all");
}

#[test]
fn a_recipe_becomes_a_file() {
    let state = tempfile::tempdir().expect("a temporary folder");
    let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/recipes/v1/4x/four-nodes-mods.yaml");
    let file = state.path().join("made.yaml").display().to_string();
    let like = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/qwen35-122b.yaml");

    // To standard output, and what was lost to standard error.
    let said = run(state.path(), &["import", recipe]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stdout.contains("host: \"${SPARK4_HOST}\""), "{}", said.stdout);
    assert!(
        said.stderr.contains("not carried over:") && said.stderr.contains("line 12: `mods: mods/not-here`")
    );

    // The cluster of another profile has to have as many nodes.
    let said = run(state.path(), &["import", recipe, "--cluster", like]);
    assert_eq!(said.code, Some(2), "{}", said.stdout);
    assert!(said.stderr.contains("needs 4 nodes, and the cluster has 2"), "{}", said.stderr);

    let two = recipe.replace("4x/four-nodes-mods", "two-nodes-ray");
    // A file that profiles extend lends its nodes as well as a profile does; a file with none says so.
    let cluster = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/clusters/two-sparks.yaml");
    let said = run(state.path(), &["import", &two, "--cluster", cluster]);
    assert!(said.code == Some(0) && said.stdout.contains("10.1.230.181"), "{}{}", said.stdout, said.stderr);
    let said = run(state.path(), &["import", &two, "--cluster", recipe]);
    assert!(said.code == Some(2) && said.stderr.contains("`cluster`"), "{}", said.stderr);

    let said = run(state.path(), &["import", &two, "--cluster", like, "-o", &file, "--name", "mine"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), ""), "{}", said.stderr);
    let text = std::fs::read_to_string(&file).expect("it was written");
    assert!(text.contains("host: \"10.1.230.180\"") && text.contains("name: mine"), "{text}");
    assert!(text.contains("path: /home/aurora/models/Large-120B-FP8"), "{text}");
    let said = run(state.path(), &["config", &file]);
    assert_eq!(said.code, Some(0), "the file is a profile: {}", said.stderr);

    // Never over what is there.
    let said = run(state.path(), &["import", &two, "-o", &file]);
    assert!(said.code == Some(3) && said.stderr.contains("is there already"), "{}", said.stderr);
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), text);
    let said = run(state.path(), &["import", &two, "-o", &file, "--force", "--models", "/srv/models", "-q"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    assert!(
        std::fs::read_to_string(&file).expect("it is there").contains("path: /srv/models/Large-120B-FP8")
    );
}

#[test]
fn an_import_is_a_document_for_programs() {
    let state = tempfile::tempdir().expect("a temporary folder");
    let recipe = |name: &str| format!("{}/tests/data/recipes/{name}", env!("CARGO_MANIFEST_DIR"));
    let said = run(state.path(), &["import", "--output", "json", &recipe("v1/refused-args.yaml")]);
    let document: Value = serde_json::from_str(&said.stdout).expect("a document");
    assert_eq!(document["profile"]["engine"]["tensor_parallel"], 2, "{document:#}");
    assert_eq!(document["report"]["not_carried"][0]["what"], "--api-key");
    assert_eq!(document["report"]["not_carried"][0]["line"], 9);

    let said = run(state.path(), &["import", &recipe("none/llama.yaml")]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(2), ""));
    assert!(said.stderr.contains("none/llama.yaml:3: the recipe's engine is `llama-cpp`"), "{}", said.stderr);
}

#[test]
fn init_without_a_host_offers_those_of_the_ssh_configuration() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = folder.path().join("ssh_config");
    std::fs::write(&config, "Host spark1 spark2\nHost *.lan\nHost github.com\n  User git\n")
        .expect("it is written");
    let said = run(folder.path(), &["--ssh-config", &config.display().to_string(), "init"]);
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("sparkctl init HOST"), "{}", said.stderr);
    assert!(said.stderr.contains("your ssh configuration has: spark1, spark2\n"), "{}", said.stderr);
}

#[test]
fn init_takes_each_machine_once_and_one_user() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cases: &[(&[&str], &str)] = &[
        (&["a", "a"], "`a` is named twice"),
        (&["local", "localhost"], "`local` is named twice"),
        (&["ada@a", "bob@b"], "one user for all nodes"),
        (&["local", "-o", "/nowhere/x.yaml"], "there is no folder /nowhere"),
        (&["a b"], "`a b` cannot be a host: it has white space"),
        (&[""], "`` cannot be a host: it is empty"),
        (&["--", "-oProxyCommand=x"], "cannot be a host: it begins with `-`"),
        (&["a", "--ssh-config", "/nowhere/config"], "there is no ssh configuration /nowhere/config"),
        (&["ada@a", "b"], "one user for all nodes"),
        (&["a", "--fabric", "10.0.0.0/99"], "is not a subnet"),
        (&["a", "--name", "No Name"], "is not a deployment name"),
        (&["local", "--image", "no image"], "is not an image reference"),
    ];
    for (args, told) in cases {
        let said = run(folder.path(), &[&["init"], *args].concat());
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(told), "{args:?}: {}", said.stderr);
    }
}

/// On this machine, whatever it is: a profile is written, and never over another file.
#[test]
fn init_of_this_machine() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("mine.yaml");
    let name = file.display().to_string();
    let model = "/srv/models/Mine";
    let args = ["init", "local", "--model", model, "--image", "a/vllm:1", "-o", &name];
    let said = run(folder.path(), &args);
    assert_eq!(said.code, Some(0), "{}{}", said.stdout, said.stderr);
    for told in [
        "(local)",
        "memory",
        "a single node needs no fabric",
        "wrote ",
        "put the model into /srv/models/Mine",
    ] {
        assert!(said.stdout.contains(told), "{told}: {}", said.stdout);
    }
    let text = std::fs::read_to_string(&file).expect("it was written");
    assert!(text.starts_with("# yaml-language-server: $schema=profile.schema.json\n"), "{text}");
    assert!(text.contains("host: local") && text.contains(model), "{text}");
    let schema = std::fs::read_to_string(folder.path().join("profile.schema.json")).expect("it was written");
    assert_eq!(serde_json::from_str::<Value>(&schema).expect("a document")["title"], "sparkctl profile");
    // It is a profile, and the same to every command.
    let said = run(folder.path(), &["config", &name]);
    assert!(said.code == Some(0) && said.stdout.contains(model), "{}{}", said.stdout, said.stderr);

    std::fs::write(&file, "mine").expect("it is written");
    let said = run(folder.path(), &args);
    assert_eq!(said.code, Some(3));
    assert!(said.stderr.contains("is there already") && said.stderr.contains("--force"), "{}", said.stderr);
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "mine");
    let forced =
        [&["--output", "json"][..], &args, &["--force", "--schema", "https://example.org/s.json"]].concat();
    let said = run(folder.path(), &forced);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let text = std::fs::read_to_string(&file).expect("it was written");
    assert!(text.starts_with("# yaml-language-server: $schema=https://example.org/s.json\n"), "{text}");
    let document: Value = serde_json::from_str(&said.stdout).expect("one document");
    assert_eq!((&document["format"], &document["file"]), (&Value::from(1), &Value::from(name)));
    assert_eq!(document["nodes"][0]["host"], "local", "{document:#}");
    assert_eq!(document["profile"]["profile"]["model"]["path"], model, "{document:#}");
}

/// An interrupt ends a run that still connects, at once.
#[test]
fn an_interrupt_while_it_connects() {
    let state = tempfile::tempdir().expect("a temporary folder");
    let config = state.path().join("ssh_config");
    std::fs::write(&config, "Host *\n  ProxyCommand sleep 10\n").expect("it is written");
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/qwen35-122b.yaml");
    let run = Command::new(env!("CARGO_BIN_EXE_sparkctl"))
        .args(["deploy", profile])
        .env("XDG_STATE_HOME", state.path())
        .env("SPARKCTL_SSH_CONFIG", &config)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("sparkctl starts");
    // It listens for signals once its record is begun.
    let began = std::time::Instant::now();
    let records = state.path().join("sparkctl/qwen35-122b/runs");
    while !records.exists() && began.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = run.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
    let began = std::time::Instant::now();
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    assert!(said.contains("nothing was changed yet; it ends now"), "{said}");
    assert!(said.contains("interrupted; nothing was changed"), "{said}");
}
