//! Gathering in earnest: the script on this machine, with stubs in place of commands that it lacks.

#![expect(clippy::unwrap_used, reason = "what a test takes for granted may panic")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use sparkctl::cluster::facts::{Depth, InterfaceKind, Missing, ModelForm, Safetensors, Smi};
use sparkctl::cluster::gather::{Request, gather};
use sparkctl::cluster::parse::{Seen, parse};
use sparkctl::host::LocalHost;
use sparkctl::host::command::compose;
use sparkctl::model::manifest::Manifest;

fn tiny_model() -> String {
    format!("{}/tests/data/tiny-model", env!("CARGO_MANIFEST_DIR"))
}

fn request(depth: Depth) -> Request {
    Request {
        depth,
        deployment: Some("gather-test".parse().unwrap()),
        model_path: Some(tiny_model()),
        peers: vec!["127.0.0.1".parse().unwrap()],
        scan: None,
    }
}

/// What the script prints here, with stubs ahead of the commands, in a German session with a home of its own.
fn seen(stubs: &[(&str, &str)], request: &Request, home: &Path) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in stubs {
        let file = folder.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut script = request.script();
    // What hangs is given up sooner than in earnest.
    script.text = Box::leak(script.text.replace("ask 20 nvidia-smi", "ask 1 nvidia-smi").into_boxed_str());
    let composed = compose(&script, "marker");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut child = Command::new("sh")
        .args(["-c", &composed.command])
        .env("PATH", path)
        .env("HOME", home)
        .env("LC_ALL", "de_DE.UTF-8")
        .env("LANGUAGE", "de")
        .env_remove("HF_HOME")
        .env_remove("HF_HUB_CACHE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &composed.stdin));
    let output = child.wait_with_output().unwrap();
    parse(request.deployment.as_ref(), &output.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stdout)))
}

#[tokio::test]
async fn this_machine() {
    let host = LocalHost::new("here".parse().unwrap());
    for depth in [Depth::Status, Depth::Plan, Depth::Check] {
        let facts = gather(&host, &request(depth)).await.unwrap();
        let name = Command::new("uname").arg("-n").output().unwrap().stdout;
        assert_eq!(facts.system.hostname, String::from_utf8_lossy(&name).trim());
        assert!(facts.system.memory_total > facts.system.memory_available);
        assert!(facts.system.memory_free.unwrap() > 0);
        assert_eq!(facts.depth, depth);
        // The node's clock is this one: between the bounds, which are as near as a process takes to begin.
        let (least, most) = facts.clock.unwrap().ahead();
        assert!(least <= SignedDuration::ZERO && most >= SignedDuration::ZERO, "{least} {most}");
        let loopback = facts.interface("lo").unwrap();
        assert_eq!((loopback.kind, loopback.up), (InterfaceKind::Loopback, true));
        assert_eq!(facts.lost_peers().count(), 0);
        assert_eq!(facts.peers[0].interface.as_deref(), Some("lo"));
        assert_eq!((facts.releases.len(), facts.unreadable_releases.len()), (0, 0));
        assert_eq!(facts.gaps, []);
        if depth == Depth::Status {
            assert_eq!((facts.model, facts.routes, facts.images.len()), (None, None, 0));
            continue;
        }
        let content = facts.model.unwrap().content.unwrap();
        assert!(content.safetensors.len() == 3 && content.safetensors.iter().all(Safetensors::is_whole));
        assert!(facts.model_disk.unwrap().free > 0);
        assert!(facts.tools.contains_key("python3"));
        if depth == Depth::Check {
            assert!(facts.user.name.is_some() && facts.user.groups.is_some() && facts.user.memlock.is_some());
            assert!(facts.system.uptime_seconds.unwrap() > 0);
            assert!(facts.system.cpu.unwrap().cores > 0);
            assert!(facts.processes.is_some());
        }
    }
}

/// A driver that hangs keeps nothing else from coming, and not for long.
#[test]
fn what_hangs_is_given_up() {
    let home = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let seen = seen(&[("nvidia-smi", "exec sleep 60")], &request(Depth::Status), home.path());
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(seen.nvidia.smi, Smi::TimedOut { seconds: 1 });
    assert_eq!((seen.gaps[0].what.as_str(), &seen.gaps[0].why), ("nvidia-smi", &Missing::TimedOut(1)));
    assert!(seen.peers[0].answers);
}

/// A directory of users that hangs keeps neither the rest of the section nor another from coming.
#[test]
fn what_hangs_within_a_section_is_given_up_alone() {
    let home = tempfile::tempdir().unwrap();
    let hangs = "exec sleep 60";
    let seen = seen(
        &[("getent", hangs), ("id", "[ \"$1\" != -Gn ] || exec sleep 60; echo ada")],
        &request(Depth::Check),
        home.path(),
    );
    let hung: Vec<_> = seen.gaps.iter().filter(|gap| gap.why == Missing::TimedOut(5)).collect();
    let hung: Vec<_> = hung.iter().map(|gap| gap.what.as_str()).collect();
    assert_eq!(hung, ["user-groups", "passwd"]);
    assert_eq!((seen.user.name.as_deref(), seen.user.groups), (Some("ada"), None));
    assert!(seen.user.memlock.is_some() && seen.user.sudo.is_some());
}

/// What is asked of the driver, in a session that speaks German: an older driver, which does not know one of the fields.
#[test]
fn a_gpu() {
    let nvidia_smi = r#"case "$*" in
      *clocks_event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2 ;;
      *query-gpu=uuid*clocks_throttle_reasons*) echo 'GPU-1, 00000000:01:00.0, 61.50, 300.00, 210, 2505, Enabled, 0x0000000000000020' ;;
      *query-gpu=name*) echo "$LC_ALL, 550.144.03, 49140, 3, 0, 33" ;;
      *query-compute-apps*) echo '12, 45678, python3' ;;
      --version) printf 'NVIDIA-SMI version  : 550.144.03\nNVML version        : 550.144\nCUDA Version        : 12.4\n' ;;
      *) exit 9 ;;
    esac"#;
    let home = tempfile::tempdir().unwrap();
    let stubs = [
        ("nvidia-smi", nvidia_smi),
        ("nvidia-ctk", "echo 'NVIDIA Container Toolkit CLI version 1.18.0'"),
        ("timedatectl", "printf 'Timezone=Europe/Berlin\\nNTPSynchronized=no\\n'"),
        ("sudo", "[ \"$*\" = '-n true' ]"),
        (
            "ps",
            "printf '    7     0      90 vllm             /usr/bin/python3 vllm serve --api-key secret\\n  8 0 1 bash             bash vllm.sh\\n'",
        ),
    ];
    let seen = seen(&stubs, &request(Depth::Check), home.path());
    assert_eq!(seen.gpus.len(), 1);
    let gpu = &seen.gpus[0];
    assert_eq!(gpu.name, "C", "commands speak no German");
    assert_eq!((gpu.clock, gpu.persistence), (Some(210), Some(true)));
    assert_eq!(gpu.throttled.as_ref().unwrap(), &["sw_thermal_slowdown"]);
    assert_eq!((seen.nvidia.cuda.as_deref(), seen.nvidia.processes.unwrap().len()), (Some("12.4"), 1));
    assert_eq!(seen.toolkit.unwrap().version.as_deref(), Some("1.18.0"));
    assert_eq!((seen.system.clock_synchronised, seen.user.sudo), (Some(false), Some(true)));
    let processes = seen.processes.unwrap();
    assert_eq!(processes.len(), 1, "a shell is no engine: {processes:?}");
    assert_eq!((processes[0].pid, processes[0].engine.as_str(), processes[0].seconds), (7, "vllm", 90));
}

/// A file of weights by its header, with `short` of its bytes missing.
fn weights(path: &Path, short: u64) {
    let header = r#"{"__metadata__":{"format":"pt"},"model.layers.0.x.weight":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"lm_head.weight":{"dtype":"F8_E4M3","shape":[6],"data_offsets":[4,10]}}"#;
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&[0; 10]);
    let length = file.len() - usize::try_from(short).unwrap();
    fs::write(path, &file[..length]).unwrap();
}

#[test]
fn a_model_that_is_not_whole() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("a model");
    fs::create_dir_all(folder.join(".cache/huggingface/download")).unwrap();
    fs::write(folder.join(".cache/huggingface/download/x.incomplete"), "x").unwrap();
    fs::write(folder.join("config.json"), "{\"architectures\": [\"X\"]}\n=== sparkctl end ===\n").unwrap();
    let index = r#"{"metadata":{"total_size":30.0},"weight_map":{"a":"whole.safetensors","b":"cut.safetensors","c":"gone.safetensors"}}"#;
    fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
    weights(&folder.join("whole.safetensors"), 0);
    weights(&folder.join("cut.safetensors"), 3);
    fs::write(folder.join("huge.safetensors"), [0xff; 64]).unwrap();
    fs::write(folder.join("empty.safetensors"), "").unwrap();
    symlink("/nowhere", folder.join("link.safetensors")).unwrap();
    let path = folder.to_str().unwrap().to_owned();
    let seen = seen(&[], &Request { model_path: Some(path), ..request(Depth::Plan) }, home.path());
    let model = seen.model.unwrap();
    assert_eq!(model.dangling, ["link.safetensors"]);
    let content = model.content.unwrap();
    let index = content.index.as_ref().unwrap();
    assert_eq!((index.total_size, index.tensors), (Some(30), 3));
    assert_eq!(content.missing_shards(), ["gone.safetensors"]);
    let whole = |name: &str| content.safetensors.iter().find(|file| file.path == name).unwrap().is_whole();
    assert!(whole("whole.safetensors"));
    assert!(!whole("cut.safetensors") && !whole("huge.safetensors") && !whole("empty.safetensors"));
    assert_eq!(content.bytes_by_type()["F8_E4M3"], 12, "of both files that have a header");
    assert_eq!(content.bytes_by_part()["model.layers.0"], 8);
    assert_eq!(content.incomplete, [".cache/huggingface/download/x.incomplete"]);
    let problems: Vec<_> = content.problems.keys().map(String::as_str).collect();
    assert_eq!(problems, ["empty.safetensors", "huge.safetensors", "link.safetensors"]);
    assert!(content.config.unwrap().ends_with("=== sparkctl end ===\n"), "a file's text is no section");
}

/// A snapshot in a Hub's cache has its files in `blobs`, which its container gets as well; anything farther it does not.
#[test]
fn a_model_in_a_hub_cache() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("hub/models--Qwen--Tiny");
    let snapshot = cache.join("snapshots/0123abcd");
    fs::create_dir_all(cache.join("blobs")).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    fs::write(cache.join("blobs/aa"), "{}").unwrap();
    fs::write(home.path().join("elsewhere"), "x").unwrap();
    symlink("../../blobs/aa", snapshot.join("config.json")).unwrap();
    let look = || {
        let path = snapshot.to_str().unwrap().to_owned();
        seen(&[], &Request { model_path: Some(path), ..request(Depth::Plan) }, home.path()).model.unwrap()
    };
    let model = look();
    assert_eq!(
        model.files.iter().map(|file| (file.path.as_str(), file.size)).collect::<Vec<_>>(),
        [("config.json", 2)]
    );
    assert_eq!(model.outside, Vec::<String>::new());
    symlink("../../../../elsewhere", snapshot.join("far.json")).unwrap();
    let outside = look().outside;
    assert!(outside.len() == 1 && outside[0].ends_with("/far.json"), "{outside:?}");
}

#[test]
fn models_in_the_usual_places() {
    let home = tempfile::tempdir().unwrap();
    let hub = home.path().join(".cache/huggingface/hub");
    let snapshot = hub.join("models--Qwen--Qwen3-8B/snapshots/b968826d9c46dd6066d109eabc6255188de91218");
    let blobs = hub.join("models--Qwen--Qwen3-8B/blobs");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(&blobs).unwrap();
    fs::write(
        blobs.join("c0"),
        r#"{"architectures":["Qwen3ForCausalLM"],"quantization_config":{"quant_method":"fp8"}}"#,
    )
    .unwrap();
    weights(&blobs.join("w0"), 0);
    symlink("../../blobs/c0", snapshot.join("config.json")).unwrap();
    symlink("../../blobs/w0", snapshot.join("model-00001-of-00002.safetensors")).unwrap();
    symlink("../../blobs/gone", snapshot.join("model-00002-of-00002.safetensors")).unwrap();
    fs::create_dir_all(hub.join("models--a--b/refs")).unwrap();
    fs::create_dir_all(hub.join("datasets--a--b/refs")).unwrap();
    let plain = home.path().join("models/deep/er/plain");
    fs::create_dir_all(&plain).unwrap();
    fs::write(plain.join("config.json"), "{}").unwrap();
    weights(&plain.join("model.safetensors"), 0);
    let local = home.path().join("other/local");
    let notes = local.join(".cache/huggingface/download");
    fs::create_dir_all(&notes).unwrap();
    fs::write(notes.join("config.json.metadata"), "0123456789abcdef0123456789abcdef01234567\netag\n1.0\n")
        .unwrap();
    fs::write(local.join("config.json"), "not json").unwrap();
    weights(&local.join("model-00002-of-00003.safetensors"), 0);

    let other = home.path().join("other").to_str().unwrap().to_owned();
    let asked = Request { scan: Some(vec![other]), model_path: None, ..request(Depth::Check) };
    let scan = seen(&[], &asked, home.path()).models.unwrap();
    let found = |end: &str| {
        scan.models.iter().find(|model| model.path.ends_with(end)).unwrap_or_else(|| panic!("{scan:?}"))
    };
    let cached = found("b968826d9c46dd6066d109eabc6255188de91218");
    assert_eq!((cached.form, cached.repo.as_deref()), (ModelForm::HubCache, Some("Qwen/Qwen3-8B")));
    assert_eq!(
        (cached.architecture.as_deref(), cached.quantization.as_deref()),
        (Some("Qwen3ForCausalLM"), Some("fp8"))
    );
    assert_eq!(cached.lacks, ["model-00002-of-00002.safetensors is a link that leads nowhere"]);
    let mentioned = found("models--a--b");
    assert_eq!(
        (mentioned.form, mentioned.repo.as_deref(), mentioned.complete),
        (ModelForm::HubNotes, Some("a/b"), false)
    );
    let whole = found("deep/er/plain");
    assert_eq!(
        (whole.form, whole.complete, whole.readable, whole.writable),
        (ModelForm::Plain, true, true, true)
    );
    let partly = found("other/local");
    assert_eq!(partly.revision.as_deref(), Some("0123456789abcdef0123456789abcdef01234567"));
    assert_eq!((partly.form, partly.lacks.len()), (ModelForm::LocalFolder, 2), "{:?}", partly.lacks);
    assert_eq!((scan.models.iter().filter(|m| m.path.contains("datasets")).count(), scan.cut), (0, false));
}

/// Each part of the answer is there also where the parts before it have nothing to say.
#[test]
fn an_empty_home_on_a_machine_without_docker() {
    let home = tempfile::tempdir().unwrap();
    let seen = seen(&[("grep", "exit 1"), ("docker", "exit 1")], &request(Depth::Plan), home.path());
    assert_eq!((seen.releases.len(), seen.highest_release), (0, None));
    assert!(seen.model.is_some() && seen.model_disk.is_some());
}

/// The model's own manifest, its place in a Hub's cache, or the notes of a download say what the files are.
#[test]
fn where_a_models_files_came_from() {
    let home = tempfile::tempdir().unwrap();
    let origin = |model: &Path| {
        let model_path = Some(model.to_str().unwrap().to_owned());
        let seen = seen(&[], &Request { model_path, ..request(Depth::Plan) }, home.path());
        seen.model.unwrap().content.unwrap().origin
    };
    let (one, other) = ("4f3c2b1a".repeat(5), "0a1b2c3d".repeat(5));
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let plain = folder.path().join("plain");
    write(&plain.join("config.json"), "{}");
    assert_eq!(origin(&plain), None);

    // A note of a file that is gone says nothing of those that are there.
    let notes = plain.join(".cache/huggingface/download");
    write(&notes.join("config.json.metadata"), &format!("{one}\n0123\n1700000000.0\n"));
    write(&notes.join("gone.json.metadata"), &format!("{other}\n"));
    let told = origin(&plain).unwrap();
    assert_eq!((told.told_by.as_str(), told.repo), ("the notes of `hf download`", None));
    assert_eq!(told.revisions, [one.as_str()]);
    write(&plain.join("gone.json"), "{}");
    assert_eq!(origin(&plain).unwrap().revisions, [other.as_str(), one.as_str()]);

    let manifest = plain.join(".sparkctl/manifest.json");
    write(&manifest, "{ cut");
    assert_eq!(origin(&plain).unwrap().told_by, "the notes of `hf download`");
    let manifest_of = |source: &str, revision: &str| {
        let it = Manifest {
            format: 1,
            source: Some(source.to_owned()),
            revision: Some(revision.to_owned()),
            files: std::collections::BTreeMap::new(),
        };
        write(&manifest, &serde_json::to_string(&it).unwrap());
    };
    manifest_of("hf:Qwen/Qwen3-8B", &one);
    let told = origin(&plain).unwrap();
    assert_eq!(
        (told.told_by.as_str(), told.repo.as_deref()),
        ("the model's manifest", Some("Qwen/Qwen3-8B"))
    );
    assert_eq!(told.revisions, [one.as_str()]);

    let cache = folder.path().join("models--Qwen--Qwen3-8B");
    let snapshot = cache.join("snapshots").join(&one);
    write(&snapshot.join("config.json"), "{}");
    write(&cache.join("refs/main"), &other);
    write(&cache.join("refs/pr/7"), &one);
    let told = origin(&snapshot).unwrap();
    assert_eq!((told.told_by.as_str(), told.repo.as_deref()), ("the Hub's cache", Some("Qwen/Qwen3-8B")));
    assert_eq!((told.revisions, &told.refs["main"], &told.refs["pr/7"]), (vec![one.clone()], &other, &one));
}

/// Firmware, limits, and containers that lost the GPU: each asked by itself, so that none takes the others with it.
#[test]
fn what_is_known_of_a_gpu_that_idles() {
    let home = tempfile::tempdir().unwrap();
    let smi = "case \"$*\" in *vbios*) echo '96.00.A5.00.01, 700.00' ;; *driver_version*) \
               echo 'NVIDIA H200, 580.95.05, 143771, 3, 0, 41' ;; *) exit 2 ;; esac";
    let docker = "case \"$1 $2\" in 'ps --filter') echo sparkctl-gather-test-0; echo other; echo hangs ;; \
                  'exec sparkctl-gather-test-0') echo 'Failed to initialize NVML: Unknown Error'; exit 255 ;; \
                  'exec other') echo 'OCI runtime exec failed: no such file'; exit 127 ;; 'exec hangs') exec sleep 60 ;; \
                  *) exit 1 ;; esac";
    let begun = Instant::now();
    let seen = seen(&[("nvidia-smi", smi), ("docker", docker)], &request(Depth::Check), home.path());
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let gpu = &seen.gpus[0];
    assert_eq!((gpu.vbios.as_deref(), gpu.power_default), (Some("96.00.A5.00.01"), Some(700.0)));
    assert_eq!(gpu.clock, None, "that was refused");
    let lost: Vec<_> = seen.nvidia.lost.iter().map(|(name, said)| (name.as_str(), said.as_str())).collect();
    assert_eq!(lost, [("sparkctl-gather-test-0", "Failed to initialize NVML: Unknown Error")]);
    assert!(seen.gaps.is_empty(), "{:?}", seen.gaps);
}

/// What one script writes, the other reads.
#[test]
fn what_must_not_run_any_more() {
    let home = tempfile::tempdir().unwrap();
    let write = |text: &str| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/release/write-ended.sh");
        let mut child = Command::new("sh")
            .args([script, "gather-test"])
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        seen(&[], &request(Depth::Status), home.path()).ended
    };
    let one = r#"{"node": "spark2", "host": "spark2.lan", "release": 3, "when": "2026-03-01T09:00:00Z", "operator": "ada"}"#;
    let ended = write(&format!(r#"{{"format": 1, "nodes": [{one}]}}"#));
    assert_eq!((ended.len(), ended[0].host.as_str()), (1, "spark2.lan"));
    assert_eq!(write(""), []);
    assert_eq!(fs::read_dir(home.path().join(".local/state/sparkctl/gather-test")).unwrap().count(), 0);
}
