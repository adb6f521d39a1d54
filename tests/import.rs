//! Recipes become profiles that load and plan: those of `tests/data/recipes`, each with what the public ones have, and
//! any others by `SPARKCTL_RECIPES`.
//!
//! The measure over public recipes, which are not ours to keep here:
//!
//! ```text
//! SPARKCTL_RECIPES=DIR cargo test --test import of_a_folder -- --nocapture
//! ```
//!
//! prints, for every file below DIR, whether it imports to a profile that `plan` accepts, and why not.

#![expect(clippy::unwrap_used, reason = "what a test takes for granted may panic")]

mod desk;

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use desk::{operator, recorded_sparks};
use proptest::prelude::*;
use sparkctl::config;
use sparkctl::delivery;
use sparkctl::fabric::Links;
use sparkctl::import::folder::Disk;
use sparkctl::import::write::yaml;
use sparkctl::import::{Beside, Folder, ImportError, Imported, Wanted, import};
use sparkctl::plan::planner;
use sparkctl::profile::{Cluster, Node, Profile, Transfer};

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recipes")
}

/// Sparks of this number, on one fabric.
fn cluster(count: u8) -> Cluster {
    let node = |number| Node {
        name: format!("spark{number}").parse().unwrap(),
        host: format!("spark{number}"),
        fabric: Ipv4Addr::new(192, 168, 200, 11 + number),
    };
    Cluster {
        user: Some("aurora".to_owned()),
        nodes: (1..=count).map(node).collect(),
        transfer: Transfer::default(),
    }
}

fn made(file: &Path, wanted: &Wanted) -> Result<Imported, ImportError> {
    let text = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
    let name = file.file_name().unwrap().to_str().unwrap();
    let disk = Disk {
        recipe: file.parent().unwrap().to_owned(),
        mods: Vec::new(),
        profile: Some(recipes().canonicalize().unwrap()),
    };
    import(name, &text, wanted, &disk)
}

fn why(error: &ImportError) -> String {
    let line = match error {
        ImportError::Yaml(error) => error.problems()[0].line,
        ImportError::Refused(refused) => refused.line,
    };
    let told = error.to_string();
    let told = told.lines().next().unwrap_or_default();
    line.map_or(told.to_owned(), |line| format!("line {line}: {told}"))
}

/// The profile in the file that the import writes.
fn loaded(imported: &Imported) -> Result<Profile, String> {
    let name = recipes().join("imported.yaml");
    config::parse(name.to_str().unwrap(), &yaml(imported, "recipe.yaml", "schema.json"))
        .map_err(|error| error.to_string())
}

/// Whether the profile loads from its file, and plans against what was recorded of Sparks.
async fn planned(imported: &Imported) -> Result<(), String> {
    let mut profile = loaded(imported)?;
    // A secret is the operator's, who is not here.
    profile.engine.env.retain(|_, value| value.text().is_some());
    let delivery = delivery::read::read(&profile).await.map_err(|problems| {
        problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
    })?;
    let mut facts = recorded_sparks(&profile);
    // What the recorded model takes of the memory says nothing of the recipe's.
    facts[0].model.as_mut().unwrap().content = None;
    match planner::deploy(&profile, &delivery, &facts, &Links::default(), &operator()) {
        Ok(planned) if planned.plan.is_empty() => Err("the plan is empty".to_owned()),
        Ok(_) => Ok(()),
        Err(refused) => {
            Err(refused.0.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>().join("; "))
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "mods") {
                found.extend(files(&path));
            }
        } else if path.to_string_lossy().contains(".y") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn on_sparks() -> Wanted {
    Wanted { name: None, cluster: Some(cluster(8)), models: "/home/aurora/models".to_owned() }
}

fn wanted() -> Wanted {
    Wanted { cluster: None, ..on_sparks() }
}

/// Each recipe of ours, and the profile that it becomes, as a person gets it.
#[test]
fn recipes_become_profiles() {
    for file in ["v1", "v2"].into_iter().flat_map(|folder| files(&recipes().join(folder))) {
        let imported =
            made(&file, &wanted()).unwrap_or_else(|error| panic!("{}: {}", file.display(), why(&error)));
        let name = file.strip_prefix(recipes()).unwrap().to_str().unwrap();
        insta::assert_snapshot!(name.replace(['/', '.'], "-"), yaml(&imported, name, "schema.json"));
    }
}

#[tokio::test(start_paused = true)]
async fn every_profile_loads_and_plans() {
    for file in ["v1", "v2"].into_iter().flat_map(|folder| files(&recipes().join(folder))) {
        let imported =
            made(&file, &on_sparks()).unwrap_or_else(|error| panic!("{}: {}", file.display(), why(&error)));
        let mut loaded = loaded(&imported).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // What is written is what was made.
        for (file, made) in loaded.files.iter_mut().zip(&imported.profile.files) {
            assert!(file.source.ends_with(&made.source), "{} became {}", made.source, file.source);
            made.source.clone_into(&mut file.source);
        }
        assert_eq!(loaded, imported.profile, "{}", file.display());
        if let Err(why) = planned(&imported).await {
            panic!("{} does not plan: {why}", file.display());
        }
    }
}

#[test]
fn what_cannot_be_a_profile_is_told() {
    let all: Vec<_> = files(&recipes().join("none"))
        .iter()
        .map(|file| {
            let error =
                made(file, &wanted()).err().unwrap_or_else(|| panic!("{} is a profile", file.display()));
            format!("{}: {}", file.file_name().unwrap().to_str().unwrap(), why(&error))
        })
        .collect();
    insta::assert_snapshot!(all.join("\n"));
}

/// Flags that become fields: what the profile then has.
const FIELDS: &[(&str, &str)] = &[
    ("-tp", "tensor_parallel:"),
    ("--tp", "tensor_parallel:"),
    ("--tp-size", "tensor_parallel:"),
    ("--tensor-parallel-size", "tensor_parallel:"),
    ("-pp", "pipeline_parallel:"),
    ("--pipeline-parallel-size", "pipeline_parallel:"),
    ("-dp", "data_parallel:"),
    ("--data-parallel-size", "data_parallel:"),
    ("--ep", "expert_parallel: true"),
    ("--enable-expert-parallel", "expert_parallel: true"),
    ("--port", "port:"),
    ("--served-model-name", "name:"),
    ("--model", "path:"),
    ("--model-path", "path:"),
    ("--max-model-len", "context_length:"),
    ("--gpu-memory-utilization", "memory_fraction:"),
    ("--max-num-seqs", "max_requests:"),
    ("--quantization", "quantization:"),
    ("-q", "quantization:"),
    ("--kv-cache-dtype", "kv_cache_type:"),
    ("--enable-prefix-caching", "prefix_caching:"),
    ("--no-enable-prefix-caching", "prefix_caching:"),
    ("--disable-radix-cache", "prefix_caching:"),
    ("--trust-remote-code", "trust_remote_code: true"),
    ("--chat-template", "chat_template:"),
    ("--reasoning-parser", "reasoning_parser:"),
    ("--tool-call-parser", "tool_parser:"),
    ("--speculative-config", "speculative:"),
    ("--spec-method", "spec"),
    ("--revision", "source:"),
];

/// Whether a flag of a command is somewhere in what the import writes: an argument, a field, or the report.
fn is_told(flag: &str, value: &str, written: &str) -> bool {
    let plain = flag.replace('_', "-");
    written.contains(flag)
        || FIELDS.iter().any(|(name, field)| {
            // One part is what a profile has where it says nothing.
            let is_default = field.ends_with("_parallel:") && value == "1";
            *name == plain && (is_default || written.contains(field))
        })
}

/// No flag of a command disappears: each is in the profile, or told.
#[test]
fn no_flag_disappears() {
    let mut seen = 0;
    for file in ["v1", "v2"].into_iter().flat_map(|folder| files(&recipes().join(folder))) {
        let text = fs::read_to_string(&file).unwrap();
        let Some((_, command)) = text.split_once("\ncommand:") else { continue };
        let command: Vec<_> = command.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
        let written = yaml(&made(&file, &wanted()).unwrap(), "x", "schema.json");
        let command = command.join(" ");
        let mut words = command.split(|c: char| c.is_whitespace() || "\"'=".contains(c)).peekable();
        while let Some(flag) = words.next() {
            let is_flag = flag.trim_start_matches('-').starts_with(|c: char| c.is_ascii_alphabetic());
            if flag.starts_with('-') && is_flag {
                seen += 1;
                let value = words.peek().copied().unwrap_or_default();
                assert!(is_told(flag, value, &written), "{}: `{flag}` is lost:\n{written}", file.display());
            }
        }
    }
    assert!(seen > 150, "only {seen} flags were looked at");
}

/// Nothing is beside the recipe.
struct Nothing;

impl Beside for Nothing {
    fn recipe(&self, _: &str) -> Option<String> {
        None
    }

    fn find(&self, _: &str) -> Option<Folder> {
        None
    }
}

fn pieces() -> Vec<String> {
    let mut pieces: Vec<String> = ["v1", "v2", "none"]
        .into_iter()
        .flat_map(|folder| files(&recipes().join(folder)))
        .flat_map(|file| {
            fs::read_to_string(file).unwrap().lines().map(|line| format!("{line}\n")).collect::<Vec<_>>()
        })
        .collect();
    pieces.extend(
        ["'", "\"", "\\", "{", "}", "{{", "$", "`", "<<X\n", "\n", "- ", "&a ", "*a", "|", "\u{f0000}", "\0"]
            .map(str::to_owned),
    );
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = import("x.yaml", &String::from_utf8_lossy(&bytes), &wanted(), &Nothing);
    }

    /// Recipes with their lines mixed up; what becomes a profile can be read back.
    #[test]
    fn mixed_up_recipes(
        file in any::<prop::sample::Index>(),
        at in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 0..6),
    ) {
        let all: Vec<_> = ["v1", "v2"].into_iter().flat_map(|folder| files(&recipes().join(folder))).collect();
        let text = fs::read_to_string(file.get(&all)).unwrap();
        let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
        let pieces = pieces();
        for (place, piece, over) in at {
            let place = place.index(lines.len());
            let piece = piece.get(&pieces).clone();
            if over { lines[place] = piece } else { lines.insert(place, piece) }
        }
        if let Ok(imported) = import("x.yaml", &lines.concat(), &on_sparks(), &Nothing) {
            let read = loaded(&imported).unwrap_or_else(|error| panic!("{error}\n{}", yaml(&imported, "x", "schema.json")));
            prop_assert_eq!(read, imported.profile);
        }
    }

    /// Any flags, in any order, with any values: each is in the profile, or told.
    #[test]
    fn any_flag_is_carried_or_told(
        flags in proptest::collection::vec(("--[a-z][a-z0-9-]{2,12}(\\.[a-z]{1,5})?", proptest::collection::vec("[a-zA-Z0-9_./:{}\\[\\],\"$ -]{0,12}", 0..3), any::<bool>()), 0..8),
        known in proptest::collection::vec((0..FIELDS.len(), "[a-m2-9.]{1,5}"), 0..5),
        version in 1..3,
    ) {
        let mut command = vec!["vllm serve acme/Tiny-8B".to_owned()];
        let mut names = Vec::new();
        for (name, values, joined) in &flags {
            let values: Vec<String> = values.iter().map(|value| format!("'{}'", value.replace('{', "{{").replace('}', "}}"))).collect();
            command.push(format!("{name}{}{}", if *joined && !values.is_empty() { "=" } else { " " }, values.join(" ")));
            names.push((name.clone(), String::new()));
        }
        for (index, value) in &known {
            let name = FIELDS[*index].0;
            command.push(format!("{name} {value}"));
            names.push((name.to_owned(), value.clone()));
        }
        let command = serde_json::to_string(&command.join(" ")).unwrap();
        let recipe = format!("recipe_version: \"{version}\"\nmodel: acme/Tiny-8B\nruntime: vllm\ncontainer: acme/serve:1\ncommand: {command}\n");
        match import("x.yaml", &recipe, &wanted(), &Nothing) {
            Err(error) => {
                // More parts than a cluster has nodes, a model that is none: told, and no profile.
                let told = why(&error);
                prop_assert!(told.contains("GPUs") || told.contains("neither a model"), "{}: {}", told, recipe);
            }
            Ok(imported) => {
                let written = yaml(&imported, "x", "schema.json");
                for (name, value) in names {
                    prop_assert!(is_told(&name, &value, &written), "`{}` of {} is lost:\n{}", name, recipe, written);
                }
            }
        }
    }
}

/// The measure; see the top of this file. Of our own recipes all but those that cannot be profiles import and plan.
#[tokio::test(start_paused = true)]
async fn of_a_folder() {
    let others = std::env::var("SPARKCTL_RECIPES");
    let folder = others.as_ref().map_or_else(|_| recipes(), PathBuf::from);
    let (mut good, mut bad, mut lost) = (0, Vec::new(), 0);
    let all = files(Path::new(&folder));
    for file in &all {
        let result = match made(file, &on_sparks()) {
            Ok(imported) => {
                lost += imported.report.not_carried.len();
                planned(&imported).await.map_err(|why| format!("imports, and does not plan: {why}"))
            }
            Err(error) => Err(why(&error)),
        };
        match result {
            Ok(()) => good += 1,
            Err(why) => bad.push(format!("{}: {why}", file.display())),
        }
    }
    println!("{good} of {} import to profiles that plan; {lost} parts were not carried over", all.len());
    for line in &bad {
        println!("  {line}");
    }
    let meant = recipes().join("none").display().to_string();
    assert!(others.is_ok() || bad.iter().all(|line| line.starts_with(&meant)), "{bad:#?}");
}
