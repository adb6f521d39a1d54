//! What can still be rolled back to and why not, what a rollback will change, and what has drifted since.

use sparkctl::check::Finding;
use sparkctl::event::{Event, RunOutcome};
use sparkctl::host::fake::{Behaviour, SEED_IMAGE, SEED_MODEL, content};
use sparkctl::operation::{self, Target};
use sparkctl::plan::Plan;
use sparkctl::release::ReleaseNumber;
use sparkctl::{report, status};

use crate::delivered::{lose, with_file};
use crate::desk::{Command, Desk, changed};

const FIRST: ReleaseNumber = ReleaseNumber(1);
const SECOND: ReleaseNumber = ReleaseNumber(2);

/// Release 1, and release 2 of another image, which runs.
async fn two_images() -> Desk {
    let desk = Desk::seed();
    desk.deployed().await;
    desk.cluster.machine("spark1", |m| m.put_image(&content("newer"), SEED_IMAGE, "arm64", 19_000_000_000));
    desk.deployed().await.clone()
}

/// What is in the way of a rollback to release 1.
async fn in_the_way(desk: &Desk) -> Vec<Finding> {
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    let release = facts.iter().flat_map(|facts| &facts.releases).find(|it| it.number == FIRST).unwrap();
    let facts = operation::look_for(release, &desk.profile, &desk.hosts(), facts.clone()).await.unwrap();
    operation::in_the_way_back(release, &facts)
}

fn ids(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.id).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_in_the_way_of_a_rollback() {
    type Case = (fn(&mut Desk), &'static [&'static str]);
    let cases: &[Case] = &[
        (|_| {}, &[]),
        (
            |desk| {
                for node in ["spark1", "spark2"] {
                    desk.cluster
                        .machine(node, |m| m.images.retain(|image| image.content == content("newer")));
                }
            },
            &["image-absent"],
        ),
        (
            |desk| {
                desk.cluster.machine("spark1", |m| {
                    let file = &mut m.folders.get_mut(SEED_MODEL).unwrap().files[0];
                    (file.mtime, file.sha256) = (file.mtime + 1, None);
                });
            },
            &["weights-changed"],
        ),
        (|desk| desk.cluster.machine("spark1", |m| m.folders.clear()), &["model-absent"]),
        (|desk| desk.profile.cluster.nodes.swap(0, 1), &["cluster-changed"]),
    ];
    for (spoil, wanted) in cases {
        let mut desk = two_images().await.copy();
        spoil(&mut desk);
        assert_eq!(ids(&in_the_way(&desk).await), *wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn the_history_says_what_can_come_back() {
    let desk = two_images().await;
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    let releases = &facts[0].releases;
    let told =
        |findings| report::status::releases(releases, Some(SECOND), &[(FIRST, findings)].into(), false);
    assert!(told(Vec::new()).contains("deployed, can come back"));
    desk.cluster.machine("spark1", |m| m.folders.clear());
    let text = told(in_the_way(&desk).await);
    assert!(text.contains("deployed, cannot come back: spark1: "), "{text}");
    assert!(text.contains("(model-absent)"), "{text}");
}

fn planned(run: &crate::desk::Run) -> &Plan {
    let plans = run.events.iter().filter_map(|event| match event {
        Event::Planned { plan } => Some(plan.as_ref()),
        _ => None,
    });
    plans.last().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_rollback_says_first_what_will_differ() {
    let desk = Desk::seed();
    desk.deployed().await.with(changed(&desk.profile)).deployed().await;
    let stopped = desk.copy();

    let run = desk.run(Command::Rollback(Target::Before)).await;
    let at = |wanted: fn(&Event) -> bool| run.events.iter().position(wanted).unwrap();
    assert!(at(|it| matches!(it, Event::Planned { .. })) < at(|it| matches!(it, Event::StageStarted { .. })));
    let wanted = "spark1: arguments --max-model-len 65536 → --max-model-len 32768";
    assert!(planned(&run).differences.iter().any(|it| it == wanted), "{:?}", planned(&run).differences);

    // Where nothing runs, to what served last.
    stopped.run(Command::Stop).await;
    let run = stopped.run(Command::Rollback(Target::Number(FIRST))).await;
    stopped.hold_to_account(&run);
    assert_eq!(planned(&run).against, Some(SECOND));
    assert!(planned(&run).differences.iter().any(|it| it == wanted), "{:?}", planned(&run).differences);
}

/// The profile's model moved: what the release before needs lies where it was.
#[tokio::test(start_paused = true)]
async fn a_release_of_another_model_comes_back() {
    let desk = Desk::seed();
    desk.deployed().await;
    let mut other = desk.with(desk.profile.clone());
    other.profile.model.path = "/home/aurora/models/other".to_owned();
    desk.cluster.machine("spark1", |m| {
        let folder = m.folders[SEED_MODEL].clone();
        m.folders.insert("/home/aurora/models/other".to_owned(), folder);
    });
    let bad = other.copy();
    other.deployed().await;
    assert_eq!(ids(&in_the_way(&other).await), [] as [&str; 0]);
    let run = other.run(Command::Rollback(Target::Before)).await;
    other.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { release: FIRST, .. })), "{:?}", run.outcome);

    bad.cluster.behave(2, Behaviour::CrashAtStart(0));
    let run = bad.run(Command::Deploy).await;
    bad.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Restored { release: FIRST, .. })), "{:?}", run.outcome);
}

#[tokio::test(start_paused = true)]
async fn what_has_drifted_is_told() {
    type Case = (fn(&Desk), &'static str);
    let cases: &[Case] = &[
        (
            |desk| {
                desk.cluster.machine("spark1", |m| {
                    m.put_image(&content("newer"), SEED_IMAGE, "arm64", 19_000_000_000);
                });
            },
            "is another image by now",
        ),
        (
            |desk| lose(desk, "spark2", "qwen35"),
            "rank 1 (spark2) reads /sparkctl/chat.jinja, which does not lie",
        ),
        (
            |desk| {
                desk.cluster.machine("spark2", |m| {
                    let container = m.containers.get_mut("sparkctl-qwen35-122b-1").unwrap();
                    "no".clone_into(&mut container.container.restart);
                });
            },
            "rank 1 (spark2) does not come back with the node",
        ),
        (
            |desk| {
                desk.cluster.machine("spark1", |m| {
                    let container = m.containers.get_mut("sparkctl-qwen35-122b-0").unwrap();
                    container.container.mounts.clear();
                    container.container.argv.push("--more".to_owned());
                });
            },
            "rank 0 (spark1) has another command line",
        ),
    ];
    let desk = with_file(&Desk::seed(), "one");
    desk.deployed().await;
    let asked = async |desk: &Desk| status::ask(&desk.profile, &desk.hosts(), &[]).await;
    assert!(asked(&desk).await.warnings.is_empty());
    for (spoil, wanted) in cases {
        let desk = desk.copy();
        spoil(&desk);
        let status = asked(&desk).await;
        // It serves all the same.
        assert!(status.is_well(), "{wanted}: {:?}", status.problems);
        assert!(
            status.warnings.iter().any(|it| it.message.contains(wanted)),
            "{wanted}: {:?}",
            status.warnings
        );
    }
}
