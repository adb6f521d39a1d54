//! Other people's containers that hold the GPU or the port: refused, or stopped, remembered and brought back.

use sparkctl::check::Severity;
use sparkctl::cluster::facts::Listener;
use sparkctl::error::Exit;
use sparkctl::event::{Event, RunOutcome};
use sparkctl::host::fake::{Behaviour, FakeContainer};
use sparkctl::operation::Target;
use sparkctl::plan::{Action, render};
use sparkctl::profile::Conflicts;
use sparkctl::release::{Release, ReleaseNumber};
use sparkctl::status;

use crate::desk::{Command, Desk, changed};

const FIRST: ReleaseNumber = ReleaseNumber(1);
const NAMES: [(&str, &str); 2] = [("spark1", "old"), ("spark1", "web")];

/// A stranger on the head's GPU and one on its port, and a profile that may stop them.
pub fn in_the_way(desk: &Desk) -> Desk {
    let mut desk = desk.clone();
    desk.profile.conflicts = Conflicts::Stop;
    desk.cluster.machine("spark1", |m| {
        let mut old = FakeContainer::foreign("old", "sglang:spark", true);
        old.container.state.started = Some("2026-02-27T10:00:00Z".parse().unwrap());
        old.container.model = Some("Qwen/Qwen3-8B".to_owned());
        m.containers.insert("old".to_owned(), old);
        let mut web = FakeContainer::foreign("web", "nginx:1", false);
        web.container.published = vec![30000];
        "on-failure:3".clone_into(&mut web.container.restart);
        m.containers.insert("web".to_owned(), web);
        let address = "0.0.0.0".to_owned();
        let container = Some("web".to_owned());
        m.listeners.push(Listener { port: 30000, address, container, ..Listener::default() });
    });
    desk
}

/// Whether each runs, and its restart policy.
fn strangers(desk: &Desk) -> Vec<(String, bool, String)> {
    let all = |node: &str| {
        desk.cluster.machine(node, |m| {
            let foreign = m.containers.values().filter(|c| c.container.ours.is_none());
            foreign
                .map(|c| (c.container.name.clone(), c.container.state.running, c.container.restart.clone()))
                .collect::<Vec<_>>()
        })
    };
    ["spark1", "spark2"].into_iter().flat_map(all).collect()
}

/// Whether all of them run as they did.
pub fn strangers_run(desk: &Desk) -> bool {
    let own = |name: &str| if name == "web" { "on-failure:3" } else { "always" };
    let all = strangers(desk);
    !all.is_empty() && all.iter().all(|(name, running, restart)| *running && restart == own(name))
}

/// What the newest record says is stopped: name and own restart policy.
fn remembered(desk: &Desk) -> Vec<(String, String)> {
    let mut newest: Option<Release> = None;
    for node in ["spark1", "spark2"] {
        let records: Vec<_> = desk
            .cluster
            .machine(node, |m| m.releases.values().filter_map(|folder| folder.record.clone()).collect());
        for record in records {
            let release: Release = serde_json::from_slice(&record).unwrap();
            if newest.as_ref().is_none_or(|newest| newest.number < release.number) {
                newest = Some(release);
            }
        }
    }
    let stopped = newest.into_iter().flat_map(|release| release.stopped);
    stopped.map(|foreign| (foreign.name, foreign.restart)).collect()
}

/// A stranger runs with its own restart policy, or is stopped and remembered; nothing between.
pub fn hold_strangers_to_account(desk: &Desk) {
    let remembered = remembered(desk);
    for (name, running, restart) in strangers(desk) {
        let own = if name == "web" { "on-failure:3" } else { "always" };
        let known = remembered.contains(&(name.clone(), own.to_owned()));
        assert!(
            if running { restart == own } else { known },
            "{name}: runs: {running}, restart policy {restart}, remembered: {remembered:?}"
        );
    }
}

fn run_of(run: &crate::desk::Run) -> &RunOutcome {
    run.outcome.as_ref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn they_are_listed_stopped_and_remembered() {
    let desk = in_the_way(&Desk::seed());
    let planned = desk.plan().await;
    let text = render::text(&planned.plan, false);
    let line =
        "spark1   old (image sglang:spark, since 2026-02-27 10:00 UTC, serves Qwen/Qwen3-8B), which is not";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("spark1   web (image nginx:1), which is not sparkctl's"), "{text}");
    let told: Vec<_> = planned.warnings.iter().filter(|it| it.severity == Severity::Warning).collect();
    let ids: Vec<_> = told.iter().map(|finding| finding.id).collect();
    assert!(ids.contains(&"gpu-taken") && ids.contains(&"port-taken"), "{told:#?}");

    desk.deployed().await;
    let stopped = |name: &str| (name.to_owned(), false, "no".to_owned());
    assert_eq!(strangers(&desk), [stopped("old"), stopped("web")]);
    hold_strangers_to_account(&desk);
    assert!(desk.plan().await.plan.is_empty());
    let status = status::ask(&desk.profile, &desk.hosts(), &[]).await;
    assert!(status.is_well(), "{:?}", status.problems);
    let screen = sparkctl::report::status::status(&status, jiff::Timestamp::UNIX_EPOCH, false);
    assert!(screen.contains("stopped for it on spark1: old (image sglang:spark"), "{screen}");

    // They do not come back beside ours.
    desk.cluster.reboot();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(strangers(&desk), [stopped("old"), stopped("web")]);
    assert!(desk.serves(FIRST));
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(
        matches!(run_of(&run), RunOutcome::NothingToDo { release: Some(FIRST), .. }),
        "{:?}",
        run.outcome
    );
}

#[tokio::test(start_paused = true)]
async fn they_are_left_alone_without_a_word_of_the_profile() {
    let mut desk = in_the_way(&Desk::seed());
    desk.profile.conflicts = Conflicts::Refuse;
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    let RunOutcome::Refused { findings } = run_of(&run) else { panic!("{:?}", run.outcome) };
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    let ids: Vec<_> = errors.map(|finding| finding.id).collect();
    assert_eq!(ids, ["gpu-taken", "port-taken"]);
    assert!(strangers_run(&desk));
}

/// What Docker removes at its end could not come back.
#[tokio::test(start_paused = true)]
async fn one_that_would_be_gone_is_left_alone() {
    let desk = in_the_way(&Desk::seed());
    desk.cluster.machine("spark1", |m| m.containers.get_mut("old").unwrap().container.auto_remove = true);
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    let RunOutcome::Refused { findings } = run_of(&run) else { panic!("{:?}", run.outcome) };
    let error = findings.iter().find(|finding| finding.severity == Severity::Error).unwrap();
    assert!(error.message.contains("(image sglang:spark, started with --rm"), "{error}");
    assert!(error.message.contains("gone for good"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn they_come_back_when_the_deploy_fails() {
    let desk = in_the_way(&Desk::seed());
    desk.cluster.behave(1, Behaviour::CrashAtStart(1));
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    let RunOutcome::Returned { failed: Some(FIRST), containers } = run_of(&run) else {
        panic!("{:?}", run.outcome)
    };
    assert_eq!(containers, &NAMES.map(|(_, name)| name));
    assert_eq!(run_of(&run).exit(), Exit::Restored);
    assert!(strangers_run(&desk));
    assert!(remembered(&desk).is_empty());
    assert_eq!(desk.running(), 0);
    let outcomes = desk.recorded(FIRST).await;
    assert!(
        outcomes.iter().all(|it| matches!(it, Some(sparkctl::release::Outcome::Failed(_)))),
        "{outcomes:?}"
    );
}

/// What the release before has no need of comes back with it; what it has stays stopped, and is told.
#[tokio::test(start_paused = true)]
async fn beside_the_release_before_comes_back_what_leaves_it_alone() {
    let desk = Desk::seed();
    desk.deployed().await;
    let mut other = in_the_way(&desk.with(changed(&desk.profile)));
    other.profile.serve.port = 30001.try_into().unwrap();
    other.cluster.machine("spark1", |m| {
        m.containers.remove("old");
        m.containers.get_mut("web").unwrap().container.published = vec![30001];
        m.listeners.last_mut().unwrap().port = 30001;
    });
    other.cluster.behave(2, Behaviour::CrashAtStart(0));
    let run = other.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run_of(&run), RunOutcome::Restored { release: FIRST, .. }), "{:?}", run.outcome);
    assert!(strangers_run(&other), "{:?}", strangers(&other));
    assert!(remembered(&other).is_empty());
}

#[tokio::test(start_paused = true)]
async fn release_0_is_what_was_there_before() {
    let desk = in_the_way(&Desk::seed());
    desk.deployed().await.with(changed(&desk.profile)).deployed().await;
    let run = desk.run(Command::Stop).await;
    desk.hold_to_account(&run);
    let told = run.events.iter().filter_map(|event| match event {
        Event::Warning { finding } => Some(finding.to_string()),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    assert!(told.iter().any(|it| it.contains("old (image sglang:spark")), "{told:?}");
    assert!(!strangers_run(&desk));

    let run = desk.run(Command::Rollback(Target::Beginning)).await;
    desk.hold_to_account(&run);
    assert!(matches!(run_of(&run), RunOutcome::Returned { failed: None, .. }), "{:?}", run.outcome);
    assert_eq!(run_of(&run).exit(), Exit::Done);
    assert!(strangers_run(&desk));
    let again = desk.run(Command::Rollback(Target::Beginning)).await;
    assert!(matches!(run_of(&again), RunOutcome::NothingToDo { release: None, .. }), "{:?}", again.outcome);
    // And release 2 may be had again, as its profile says.
    let run = desk.run(Command::Rollback(Target::Number(ReleaseNumber(2)))).await;
    desk.hold_to_account(&run);
    assert!(matches!(run_of(&run), RunOutcome::Deployed { .. }), "{:?}", run.outcome);
    hold_strangers_to_account(&desk);
    assert!(!strangers_run(&desk));
}

#[tokio::test(start_paused = true)]
async fn release_0_ends_a_group_that_stopped_nobody() {
    let desk = Desk::seed();
    desk.deployed().await;
    let run = desk.run(Command::Rollback(Target::Beginning)).await;
    desk.hold_to_account(&run);
    assert!(matches!(run_of(&run), RunOutcome::Stopped { release: Some(FIRST) }), "{:?}", run.outcome);
}

/// Its owner has the last word: one that was removed is not missed, one that was started again is not touched.
#[tokio::test(start_paused = true)]
async fn what_the_owner_did_since_counts() {
    let desk = in_the_way(&Desk::seed());
    desk.deployed().await;
    desk.cluster.machine("spark1", |m| {
        m.containers.remove("web");
    });
    let run = desk.run(Command::Rollback(Target::Beginning)).await;
    desk.hold_to_account(&run);
    let RunOutcome::Returned { containers, .. } = run_of(&run) else { panic!("{:?}", run.outcome) };
    assert_eq!(containers, &["old"]);
    assert!(strangers_run(&desk));
}

/// One that came while ours runs: ours stays, and is asked again.
#[tokio::test(start_paused = true)]
async fn one_that_came_later_is_stopped_beside_ours() {
    let mut desk = Desk::seed();
    desk.profile.conflicts = Conflicts::Stop;
    desk.deployed().await;
    desk.cluster.machine("spark2", |m| {
        m.containers.insert("late".to_owned(), FakeContainer::foreign("late", "comfy:1", true));
    });
    let plan = desk.plan().await.plan;
    assert!(!plan.interrupts());
    let acts = plan.stages.iter().flat_map(|stage| &stage.steps).map(|step| &step.action);
    let stopped = acts.filter(|act| matches!(act, Action::StopForeign { .. })).count();
    assert_eq!(stopped, 1, "{:#?}", plan.stages);
    let run = desk.run(Command::Deploy).await;
    assert!(matches!(run_of(&run), RunOutcome::Deployed { release: FIRST, .. }), "{:?}", run.outcome);
    assert_eq!(strangers(&desk), [("late".to_owned(), false, "no".to_owned())]);
    assert_eq!(remembered(&desk), [("late".to_owned(), "always".to_owned())]);
    assert!(desk.plan().await.plan.is_empty());
    assert!(desk.serves(FIRST));
}
