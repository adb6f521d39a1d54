//! Checks on a healthy pair of Sparks, and on the same pair with one fault each: every fault is found, with its node and a
//! remedy, and a healthy pair has none.

#![expect(clippy::unwrap_used, reason = "what a test takes for granted may panic")]

#[path = "../desk/mod.rs"]
mod desk;
mod faults;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use desk::{Command, Desk, operator};
use faults::{E, HEAD, WORKER, content, faults, head, worker};
use sparkctl::check::{self, CHECKS, Finding, Selection, Severity};
use sparkctl::cluster::facts::{Gap, Missing, ModelOrigin, Smi};
use sparkctl::event::RunOutcome;
use sparkctl::fabric::{Links, Measured, Tell};
use sparkctl::operation::{self, Examined};
use sparkctl::profile::NodeName;
use sparkctl::report::check::Report;

async fn examined(desk: &Desk, measure: bool) -> Examined {
    let tell: Option<Tell<'_>> = if measure { Some(&|_| {}) } else { None };
    operation::check(&desk.profile, &desk.delivery, &desk.hosts(), &operator(), tell).await
}

#[tokio::test(start_paused = true)]
async fn every_seeded_fault_is_found_and_nothing_is_changed() {
    assert!(faults().count() >= 40);
    let mut missed = Vec::new();
    for (spoil, id, node, severity, remedy) in faults() {
        let desk = Desk::seed();
        spoil(&desk);
        desk.cluster.forget_effects();
        let found = examined(&desk, false).await.findings;
        let is = |finding: &&Finding| {
            finding.id == *id
                && finding.severity == *severity
                && finding.node.as_ref().map(NodeName::as_str) == *node
                && finding.hint.as_ref().is_some_and(|hint| hint.contains(remedy))
        };
        if !found.iter().any(|finding| is(&finding)) {
            missed.push(format!("{id} on {node:?} ({remedy}): {found:#?}"));
        }
        for finding in &found {
            assert!(finding.hint.is_some(), "no remedy: {finding}");
            let known = check::of(finding.id).unwrap_or_else(|| panic!("{} is in no table", finding.id));
            assert!(
                finding.severity <= known.worst,
                "{finding}: {} is told of a {}",
                finding.severity,
                known.worst
            );
        }
        assert!(
            !desk.cluster.effects().iter().any(|effect| effect.changes),
            "{id}: a check changed something"
        );
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// A deploy begins with the same checks: what is an error refuses it before anything is changed.
#[tokio::test(start_paused = true)]
async fn an_error_refuses_a_deploy() {
    for (spoil, id, _, severity, _) in faults() {
        let desk = Desk::seed();
        spoil(&desk);
        if *severity != E
            || desk
                .cluster
                .nodes()
                .iter()
                .any(|node| desk.cluster.machine(node.as_str(), |m| m.no_docker.is_some()))
        {
            continue;
        }
        desk.cluster.forget_effects();
        let run = desk.run(Command::Deploy).await;
        desk.hold_to_account(&run);
        assert!(matches!(run.outcome, Some(RunOutcome::Refused { .. })), "{id}: {:?}", run.outcome);
    }
}

fn wrong(findings: &[Finding]) -> Vec<String> {
    let wrong = findings.iter().filter(|finding| finding.severity > Severity::Note);
    wrong.map(|finding| format!("{}: {finding}", finding.severity)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_healthy_pair_has_nothing_wrong() {
    let desk = Desk::seed();
    assert_eq!(wrong(&examined(&desk, false).await.findings), Vec::<String>::new());
    assert_eq!(wrong(&examined(&desk, true).await.findings), Vec::<String>::new());
    // Nor while it serves.
    desk.deployed().await;
    assert_eq!(wrong(&examined(&desk, false).await.findings), Vec::<String>::new());
}

/// What speed a link has is only known where it was measured.
#[tokio::test(start_paused = true)]
async fn a_slow_link_is_found_by_measuring() {
    let desk = Desk::seed();
    desk.cluster.link(HEAD, WORKER, |link| link.bytes_per_second = 1_600_000_000);
    assert_eq!(wrong(&examined(&desk, false).await.findings), Vec::<String>::new());
    let found = examined(&desk, true).await.findings;
    assert!(found.iter().any(|finding| finding.id == "fabric-slow" && finding.severity == E), "{found:#?}");
}

/// Each link is told as soon as it was measured: eight nodes take most of a minute.
#[tokio::test(start_paused = true)]
async fn measuring_tells_how_far_it_is() {
    let desk = Desk::seed();
    desk.cluster.link(HEAD, WORKER, |link| link.bytes_per_second = 12_160_000_000);
    let lines = Mutex::new(Vec::new());
    let tell =
        |measured: &Measured| lines.lock().unwrap().push(sparkctl::report::check::measured_line(measured));
    operation::check(&desk.profile, &desk.delivery, &desk.hosts(), &operator(), Some(&tell)).await;
    let lines = lines.into_inner().unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "measured 1 of 2: spark1 → spark2   97.2 Gb/s");
    assert!(lines[1].starts_with("measured 2 of 2: spark2 → spark1   "), "{lines:?}");
}

/// A commit, a branch that the cache knows, and what only the profile or only the folder tells.
#[tokio::test(start_paused = true)]
async fn a_wrong_revision_is_an_error() {
    let commit = "4f3c2b1a".repeat(5);
    let origin = |refs: &[(&str, &str)]| ModelOrigin {
        told_by: "the Hub's cache".to_owned(),
        repo: Some("qwen/qwen3.5-122b-a10b-fp8".to_owned()),
        revisions: vec![commit.clone()],
        refs: refs.iter().map(|(name, commit)| ((*name).to_owned(), (*commit).to_owned())).collect(),
    };
    let moved = "0".repeat(40);
    for (source, refs, wrong) in [
        ("@4f3c2b1a4f3c", &[][..], ""),
        ("@4F3C2B1A", &[], ""),
        ("@4f3c2b1b", &[], "names 4f3c2b1b"),
        ("@main", &[("main", commit.as_str())], ""),
        ("@main", &[("main", moved.as_str())], "names main (000000000000)"),
        // Which commit a branch is now, nobody here knows.
        ("@main", &[], ""),
        ("", &[("main", moved.as_str())], ""),
    ] {
        let mut desk = Desk::seed();
        desk.profile.model.source = Some(format!("hf:Qwen/Qwen3.5-122B-A10B-FP8{source}"));
        head(&desk, |m| content(m).origin = Some(origin(refs)));
        // The other node's is copied over, whatever it is.
        worker(&desk, |m| content(m).origin = Some(ModelOrigin::default()));
        let found = examined(&desk, false).await.findings;
        let found: Vec<_> = found.iter().filter(|finding| finding.id == "model-revision").collect();
        match (wrong, &found[..]) {
            ("", []) => {}
            (wrong, [one]) if !wrong.is_empty() => {
                assert!(one.message.contains("revision 4f3c2b1a4f3c, as the Hub's cache says"), "{one}");
                assert!(one.message.contains(wrong) && one.severity == E, "{one}");
            }
            _ => panic!("{source} {refs:?}: {found:?}"),
        }
    }
}

/// What a `systemctl daemon-reload` does to a container that runs. Where the driver itself fails, that is told alone.
#[tokio::test(start_paused = true)]
async fn a_container_that_lost_its_gpu() {
    let desk = Desk::seed();
    desk.deployed().await;
    let said = "Failed to initialize NVML: Unknown Error";
    worker(&desk, |m| drop(m.nvidia.lost.insert("sparkctl-qwen35-122b-1".into(), said.into())));
    let told = [
        "warning: spark2: container `sparkctl-qwen35-122b-1` lost the GPU: `nvidia-smi` in it says \"Failed to \
                 initialize NVML: Unknown Error\" (gpu-lost)",
    ];
    assert_eq!(wrong(&examined(&desk, false).await.findings), told);
    let status = sparkctl::status::ask(&desk.profile, &desk.hosts(), &[]).await;
    assert!(!status.is_well());
    assert!(status.problems[0].message.starts_with("rank 1 (spark2) lost the GPU"), "{:?}", status.problems);
    worker(&desk, |m| {
        m.gpus.clear();
        m.nvidia.smi = Smi::Failing { said: "Driver/library version mismatch".to_owned() };
    });
    let found = examined(&desk, false).await.findings;
    assert!(!found.iter().any(|finding| finding.id == "gpu-lost"), "{found:#?}");
}

/// One node that cannot be asked leaves the other to be examined.
#[tokio::test(start_paused = true)]
async fn the_other_nodes_are_examined_all_the_same() {
    let desk = Desk::seed();
    desk.cluster.set_reachable("spark1", false);
    worker(&desk, |m| m.gpus.clear());
    let found = examined(&desk, false).await.findings;
    let told: Vec<_> =
        found.iter().map(|finding| (finding.id, finding.node.as_ref().unwrap().as_str())).collect();
    assert!(told.contains(&("ssh-unasked", "spark1")), "{told:?}");
    assert!(told.contains(&("gpu-absent", "spark2")), "{told:?}");
    // Whatever was asked for: a node of which nothing is known is never passed over in silence.
    let only = Selection::new(&["gpu".to_owned()], &[]).unwrap();
    let findings: Vec<_> = found.into_iter().filter(|finding| only.tells(finding)).collect();
    assert_eq!(findings.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["ssh-unasked", "gpu-absent"]);
    let profile = desk.profile.clone();
    let asked = vec!["spark2".parse().unwrap()];
    let report = Report { profile, findings, parity: Vec::new(), selection: only, asked, measured: false };
    let text = report.text(true, None);
    assert!(text.contains("✗ gpu      gpu-absent") && text.contains("· gpu-slow "), "{text}");
    assert!(text.ends_with("10 checks, 2 errors\n"), "{text}");
}

/// A command that hangs on a node is told with its name.
#[tokio::test(start_paused = true)]
async fn a_question_that_got_no_answer() {
    let desk = Desk::seed();
    let mut facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    facts[1].gaps.push(Gap { what: "docker-disk".to_owned(), why: Missing::TimedOut(10) });
    let told = ["warning: spark2: `docker-disk` gave no answer within 10 s (unanswered)"];
    assert_eq!(wrong(&check::check(&desk.profile, &facts, &Links::default())), told);
}

/// What runs on other nodes, or in another order, would be left running there.
#[tokio::test(start_paused = true)]
async fn a_release_of_other_nodes_is_not_forgotten() {
    let mut desk = Desk::seed();
    desk.deployed().await;
    desk.profile.cluster.nodes.swap(0, 1);
    let found = examined(&desk, false).await.findings;
    let found = found.iter().find(|finding| finding.id == "cluster-changed").unwrap();
    assert!(found.hint.as_ref().unwrap().contains("sparkctl stop qwen35-122b"), "{found:?}");
}

/// A skipped error refuses nothing, and the release says what was skipped.
#[tokio::test(start_paused = true)]
async fn a_skipped_check_lets_a_deploy_go_on() {
    let desk = Desk::seed();
    head(&desk, |m| m.system.earlyoom = Some(true));
    worker(&desk, |m| m.docker.version = "28.2.2".into());
    worker(&desk, |m| m.toolkit.as_mut().unwrap().mode = Some("cdi".into()));
    let run = desk.run(Command::Deploy).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Refused { .. })), "{:?}", run.outcome);
    let mut operator = operator();
    operator.skip = vec!["docker-cdi".to_owned()];
    let run = desk.run_as(Command::Deploy, &operator).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    assert_eq!(facts[1].releases[0].skipped, ["docker-cdi"]);
}

#[test]
fn why_a_node_does_not_let_us_in() {
    let check = |why: &str, id: &str, remedy: &str| {
        let found = check::refused(&"spark1".parse().unwrap(), "10.1.2.3", why);
        assert_eq!((found.id, found.severity), (id, E), "{why}");
        assert!(found.hint.as_ref().unwrap().contains(remedy), "{found:?}");
    };
    check(
        "it does not let us in (ssh: u@h: Permission denied (publickey).)",
        "ssh-auth",
        "ssh-copy-id 10.1.2.3",
    );
    check(
        "its ED25519 host key is not the one in `/home/u/.ssh/known_hosts:12`",
        "ssh-host-key",
        "ssh-keygen -R 10.1.2.3",
    );
    check("its host key is not known yet", "ssh-host-key", "log in once");
    check("it does not answer (ssh: timed out)", "ssh-unreachable", "ssh 10.1.2.3 true");
    let sessions = check::unasked(
        &"spark1".parse().unwrap(),
        "sshd refused a further session (`MaxSessions` in sshd_config)",
    );
    assert_eq!(sessions.id, "ssh-sessions");
}

#[test]
fn which_checks_are_wanted() {
    let new = |only: &[&str], skip: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Selection::new(&owned(only), &owned(skip))
    };
    let all = new(&[], &[]).unwrap();
    assert_eq!(all.count(), CHECKS.len());
    let fabric = new(&["fabric"], &["rails"]).unwrap();
    assert!(fabric.wants("fabric-mtu") && !fabric.wants("rails") && !fabric.wants("port-taken"));
    assert_eq!(new(&[], &["port-take"]).unwrap_err().near, Some("port-taken"));
    assert_eq!(new(&["xyzzyxyzzy"], &[]).unwrap_err().near, None);
}

#[test]
fn the_table_is_in_order() {
    let mut ids = BTreeSet::new();
    for check in CHECKS {
        assert!(ids.insert(check.id), "{} is there twice", check.id);
        assert!(!check.expected.is_empty() && !check.why.is_empty(), "{}", check.id);
        assert!(!check.vital || check.worst == E, "{} is vital and no error", check.id);
    }
    // Topics come in one piece each.
    let mut topics: Vec<_> = CHECKS.iter().map(|check| check.topic).collect();
    topics.dedup();
    assert_eq!(topics.iter().collect::<BTreeSet<_>>().len(), topics.len(), "{topics:?}");
}

/// A check that nothing provokes may never tell anything.
#[test]
fn every_check_is_provoked_by_a_test() {
    fn texts(folder: &Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap();
            if entry.is_dir() && name != "data" && name != "snapshots" {
                texts(&entry, all);
            } else if name.ends_with(".rs") {
                all.push_str(&std::fs::read_to_string(&entry).unwrap());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    texts(&root.join("tests"), &mut all);
    all.push_str(&std::fs::read_to_string(root.join("src/fabric/judge/tests.rs")).unwrap_or_default());
    let seeded: BTreeSet<_> = faults().map(|fault| fault.1).collect();
    let named =
        |id: &str| seeded.contains(id) || all.contains(&format!("{id}\"")) || all.contains(&format!("{id})"));
    let never: Vec<_> = CHECKS.iter().map(|check| check.id).filter(|id| !named(id)).collect();
    assert_eq!(never, [] as [&str; 0]);
}

#[test]
fn the_document_has_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/checks.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, check::document()).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        check::document(),
        "UPDATE_DOCS=1 cargo test --test check"
    );
}
