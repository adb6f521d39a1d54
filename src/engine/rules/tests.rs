use std::collections::BTreeMap;

use super::words::{Has, has};
use super::*;
use crate::config;

fn profile(edits: &[(&str, &str)]) -> Profile {
    let mut text = include_str!("../../../profiles/rig-stub.yaml").to_owned();
    for (from, to) in edits {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    config::parse("x.yaml", &text).unwrap_or_else(|error| panic!("{text}\n{error:?}"))
}

fn software(packages: &[(&str, &str)]) -> Software {
    let packages = packages.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned()));
    Software { python: "3.12.3".to_owned(), packages: packages.collect::<BTreeMap<_, _>>() }
}

#[test]
fn versions_as_packages_write_them() {
    for (text, version) in [
        ("0.32.0", Some(Version(0, 32, 0))),
        ("0.32.0+cpu", Some(Version(0, 32, 0))),
        ("0.19.1rc1.dev42+g1234567.d20260401", Some(Version(0, 19, 1))),
        ("v0.5.23", Some(Version(0, 5, 23))),
        ("0.11", Some(Version(0, 11, 0))),
        ("0.1.dev1+g1234567", None),
        ("dev", None),
        ("", None),
    ] {
        assert_eq!(Version::parse(text), version, "{text}");
    }
}

/// What a version says of a profile: the ids, whether the engine refuses it, the field, and a word of message and hint.
#[test]
fn what_a_version_refuses() {
    type Case<'a> =
        (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)], &'a [(&'a str, bool, &'a str, &'a str)]);
    let on = |ray| ("launch: ray", if ray { "launch: ray" } else { "launch: native" });
    let cases: &[Case] = &[
        (&[on(true)], &[("vllm", "0.32.0"), ("ray", "2.60.0")], &[]),
        (&[on(false)], &[("vllm", "0.32.0")], &[]),
        (&[on(true)], &[("vllm", "0.33.0")], &[("engine-ray", true, "engine.launch", "launch: native")]),
        (
            &[on(true)],
            &[("vllm", "0.10.2")],
            &[
                ("engine-ray", true, "engine.launch", "docker/engine-ray"),
                ("engine-version", false, "image.reference", "newer image"),
            ],
        ),
        (&[on(false)], &[("vllm", "0.10.2")], &[("engine-version", true, "engine.launch", "launch: ray")]),
        (
            &[on(true)],
            &[("vllm", "0.11.2"), ("ray", "2.50.0")],
            &[("engine-version", false, "engine.launch", "0.12")],
        ),
        (&[on(false)], &[("vllm", "0.40.0")], &[("engine-version", false, "image.reference", "first start")]),
        // A build that says no version is not judged, but that it has no Ray is seen all the same.
        (&[on(true)], &[("vllm", "0.1.dev1")], &[("engine-ray", true, "engine.launch", "launch: native")]),
        // The interpreter is not the engine's own: nothing is known.
        (&[on(true)], &[], &[]),
        (
            &[on(true)],
            &[("torch", "2.9.0"), ("sglang", "0.5.5")],
            &[("engine-absent", false, "engine.kind", "the engine that the image has")],
        ),
    ];
    for (edits, packages, wanted) in cases {
        let found = judge(&profile(edits), &software(packages));
        let told: Vec<_> = found.iter().map(|r| (r.id, r.refused, r.path.as_str())).collect();
        let ids: Vec<_> = wanted.iter().map(|(id, refused, path, _)| (*id, *refused, *path)).collect();
        assert_eq!(told, ids, "{packages:?}: {found:?}");
        for (ruled, (.., hint)) in found.iter().zip(*wanted) {
            assert!(ruled.hint.contains(hint), "{ruled:?}");
        }
    }
}

#[test]
fn flags_of_other_versions() {
    let with = |args: &str| profile(&[("engine:\n", &format!("engine:\n  args: {args}\n"))]);
    for (args, version, refused) in [
        (r#"["--swap-space", "4"]"#, "0.13.0", false),
        (r#"["--swap-space", "4"]"#, "0.20.2", true),
        (r#"["--swap_space=4"]"#, "0.32.0", true),
        (r#"["--attention-backend", "FLASHINFER"]"#, "0.12.0", true),
        (r#"["--attention-backend", "FLASHINFER"]"#, "0.13.0", false),
        (r#"["--enforce-eager"]"#, "0.12.0", false),
    ] {
        let found = judge(&with(args), &software(&[("vllm", version), ("ray", "2.60.0")]));
        let told: Vec<_> = found.iter().filter(|ruled| ruled.id == "engine-flag").collect();
        assert_eq!(told.len(), usize::from(refused), "{args} {version}: {found:?}");
        assert!(told.iter().all(|ruled| ruled.path == "engine.args[0]" && ruled.refused));
    }
}

#[test]
fn words_between_two_releases_are_not_judged() {
    let rows: &[(usize, usize, &str)] = &[(0, 4, "old"), (0, 2, "gone"), (2, 4, "new")];
    for (word, version, wanted) in [
        ("old", Version(0, 11, 2), Has::Yes),
        ("old", Version(0, 40, 0), Has::Yes),
        ("new", Version(0, 13, 0), Has::No),
        ("new", Version(0, 15, 0), Has::Unknown),
        ("new", Version(0, 20, 2), Has::Yes),
        ("gone", Version(0, 13, 0), Has::Yes),
        ("gone", Version(0, 15, 0), Has::Unknown),
        ("gone", Version(0, 20, 2), Has::No),
        ("none", Version(0, 33, 0), Has::No),
        ("none", Version(0, 34, 0), Has::Unknown),
    ] {
        assert_eq!(has(rows, word, version), wanted, "{word} {version}");
    }
}

#[test]
fn a_wrong_word_is_told_with_the_nearest() {
    let with = |field: &str| profile(&[("engine:\n", &format!("engine:\n  {field}\n"))]);
    for (field, version, hint) in [
        ("quantization: fp8", "0.32.0", None),
        ("quantization: fp9", "0.32.0", Some("did you mean `fp8`?")),
        ("quantization: compressed_tensors", "0.13.0", Some("did you mean `compressed-tensors`?")),
        ("quantization: bitsandbytes", "0.20.2", None),
        ("kv_cache_type: nvfp4", "0.13.0", Some("")),
        ("kv_cache_type: fp8_e4m3", "0.11.2", None),
    ] {
        let found = judge(&with(field), &software(&[("vllm", version), ("ray", "2.60.0")]));
        let told = found.iter().find(|ruled| ruled.path.contains(field.split(':').next().unwrap()));
        assert_eq!(told.is_some(), hint.is_some(), "{field} {version}: {found:?}");
        if let (Some(told), Some(hint)) = (told, hint) {
            assert!(!told.refused && told.hint.contains(hint), "{told:?}");
        }
    }
}
