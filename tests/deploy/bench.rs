//! The benchmark of a deploy: kept with the release, told beside the one before, and decisive only where it has limits.

use sparkctl::bench::result::Report;
use sparkctl::event::{Event, RunOutcome};
use sparkctl::host::fake::{Behaviour, Fault, Moment};
use sparkctl::operation::{self, Target};
use sparkctl::plan::StageKind;
use sparkctl::release::{Outcome, Release};

use crate::desk::{Command, Desk, Run, changed};
use crate::{FIRST, SECOND, interrupted_at, kill_at};

/// A cluster where release 1 serves, and a change whose engine behaves so; `gate` has the limits of both.
async fn change(behaviour: Behaviour, gate: &[&str]) -> Desk {
    let mut desk = Desk::seed();
    desk.profile.bench.gate = gate.iter().map(|limit| (*limit).to_owned()).collect();
    desk.deployed().await;
    desk.cluster.behave(2, behaviour);
    desk.with(changed(&desk.profile))
}

/// What the stage of the benchmark told.
fn told(run: &Run) -> String {
    let details = run.events.iter().filter_map(|event| match event {
        Event::StageDone { stage: StageKind::Gate | StageKind::Bench, detail, .. } => detail.clone(),
        _ => None,
    });
    details.collect()
}

fn warned(run: &Run, id: &str) -> bool {
    run.events.iter().any(|event| matches!(event, Event::Warning { finding } if finding.id == id))
}

async fn records(desk: &Desk) -> Vec<Release> {
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    facts.into_iter().flat_map(|facts| facts.releases).collect()
}

#[tokio::test(start_paused = true)]
async fn a_release_is_measured_and_its_figures_are_kept() {
    for gate in [&[][..], &["throughput@c1>20"]] {
        let desk = change(Behaviour::Healthy, gate).await;
        let run = desk.run(Command::Deploy).await;
        desk.hold_to_account(&run);
        assert!(
            matches!(run.outcome, Some(RunOutcome::Deployed { release: SECOND, .. })),
            "{:?}",
            run.outcome
        );
        // 256 tokens in 0.31 s and 255 times 36 ms; four at once, each 1.32 times slower.
        assert_eq!(
            told(&run),
            "c1 27.0 tok/s TTFT 310 ms · c4 82.6 tok/s (release 1: 27.0, 82.6; no difference)"
        );
        let records = records(&desk).await;
        assert_eq!(records.len(), 4, "two releases on two nodes");
        for record in records {
            let bench = record.figures.bench.unwrap();
            assert_eq!(bench.rates(), "27.0 · 82.6", "release {} has no figures", record.number);
            assert!(record.figures.start_seconds.is_some(), "the other figures are lost");
        }
        let folder = ("qwen35-122b".to_owned(), "0002".to_owned());
        let whole = desk.cluster.machine("spark1", |m| m.releases[&folder].bench.clone()).unwrap();
        let whole: Report = serde_json::from_slice(&whole).unwrap();
        assert_eq!((whole.points.len(), whole.subject.release), (2, Some(SECOND)));
        assert!(desk.plan().await.plan.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_slower_release_is_told_and_serves_where_no_limit_is_set() {
    let desk = change(Behaviour::Slow, &[]).await;
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { release: SECOND, .. })), "{:?}", run.outcome);
    assert!(told(&run).contains("worse: throughput at c1 -49"), "{}", told(&run));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_does_not_keep_a_limit_gives_way_to_the_one_before() {
    for (behaviour, words) in [
        (Behaviour::Slow, "at c1 the limit `throughput@c1>20` is not kept: it is 13.7 tok/s"),
        (
            Behaviour::NotUnderLoad,
            "at c1 the limit `throughput@c1>20` is not kept: it is 0 tok/s; \
             at c1 the limit `failed<=0%` is not kept: it is 6 of 6 requests",
        ),
    ] {
        let desk = change(behaviour, &["throughput@c1>20"]).await;
        let run = desk.run(Command::Deploy).await;
        desk.hold_to_account(&run);
        let restored = matches!(run.outcome, Some(RunOutcome::Restored { failed: SECOND, release: FIRST }));
        assert!(restored, "{behaviour:?}: {:?}", run.outcome);
        assert_eq!(run.outcome.as_ref().unwrap().exit() as u8, 4);
        let chain = run.events.iter().find_map(|event| match event {
            Event::Failed { failure } => Some(failure.chain.join(": ")),
            _ => None,
        });
        assert_eq!(chain.unwrap(), format!("bench failed on spark1: {words}"));
        assert!(desk.recorded(SECOND).await.iter().all(|o| matches!(o, Some(Outcome::Failed(_)))));
        // It came back as it was; what it bore is known already.
        assert_eq!(told(&run), "");
    }
}

/// Figures are those of answered requests: what was answered before the engine died keeps no limit, and hides nothing.
#[tokio::test(start_paused = true)]
async fn an_engine_that_dies_under_load_is_no_success() {
    let desk = change(Behaviour::DiesUnderLoad, &["tpot_p50@c1<60ms"]).await;
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    let restored = matches!(run.outcome, Some(RunOutcome::Restored { failed: SECOND, release: FIRST }));
    assert!(restored, "{:?}", run.outcome);

    let desk = change(Behaviour::DiesUnderLoad, &[]).await;
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    let Some(RunOutcome::NotServing { release: Some(SECOND), why }) = &run.outcome else {
        panic!("{:?}", run.outcome);
    };
    assert!(why.contains("now a completion as well: HTTP 500"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_benchmark_that_cannot_be_done_is_a_warning() {
    let desk = change(Behaviour::NotUnderLoad, &[]).await;
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { release: SECOND, .. })), "{:?}", run.outcome);
    assert!(warned(&run, "bench-requests"), "nothing is told of the requests that failed");
    assert!(told(&run).contains("c1 nothing answered (6 of 6 failed)"), "{}", told(&run));
    for effect in ["measure", "write-bench"] {
        let desk = change(Behaviour::Healthy, &[]).await;
        desk.cluster.fault_at_first(effect, Fault::Fail, Moment::Before);
        let run = desk.run(Command::Deploy).await;
        desk.hold_to_account(&run);
        assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{effect}: {:?}", run.outcome);
        assert!(warned(&run, "bench-failed") || warned(&run, "bench-not-kept"), "{effect}: nothing is told");
    }
}

/// A release that serves and was verified is deployed, whatever becomes of a benchmark that decides nothing.
#[tokio::test(start_paused = true)]
async fn who_is_killed_in_a_benchmark_has_deployed_unless_it_decides() {
    let desk = change(Behaviour::Healthy, &[]).await;
    kill_at(&desk, "measure").await;
    assert_eq!(desk.recorded(SECOND).await, vec![Some(Outcome::Deployed); 2]);
    let again = desk.run(Command::Deploy).await;
    assert!(matches!(again.outcome, Some(RunOutcome::NothingToDo { .. })), "{:?}", again.outcome);

    let desk = change(Behaviour::Healthy, &["throughput>20"]).await;
    kill_at(&desk, "measure").await;
    assert_eq!(desk.recorded(SECOND).await, vec![Some(Outcome::Begun); 2]);
    let again = desk.run(Command::Deploy).await;
    desk.hold_to_account(&again);
    assert!(
        matches!(again.outcome, Some(RunOutcome::Deployed { release: SECOND, .. })),
        "{:?}",
        again.outcome
    );
    assert!(told(&again).starts_with("c1 27.0 tok/s"), "it was not measured: {}", told(&again));
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_in_a_benchmark_leaves_the_release_that_serves() {
    let desk = change(Behaviour::Healthy, &[]).await;
    let run = interrupted_at(&desk, "measure").await;
    let Some(RunOutcome::Interrupted { state }) = &run.outcome else { panic!("{:?}", run.outcome) };
    assert_eq!(state, "release 2 serves, verified and recorded; the benchmark was cut short");
    assert!(desk.serves(SECOND));

    let desk = change(Behaviour::Healthy, &["throughput>20"]).await;
    let run = interrupted_at(&desk, "measure").await;
    let Some(RunOutcome::Interrupted { state }) = &run.outcome else { panic!("{:?}", run.outcome) };
    assert_eq!(state, "release 1 serves again, verified");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_measured_of_what_comes_back_or_where_nobody_wants_it() {
    let desk = change(Behaviour::Healthy, &[]).await;
    desk.deployed().await;
    let back = desk.run(Command::Rollback(Target::Before)).await;
    desk.hold_to_account(&back);
    assert_eq!(told(&back), "");
    let mut quiet = desk.with(desk.profile.clone());
    quiet.profile.bench.concurrency = Vec::new();
    let run = quiet.run(Command::Deploy).await;
    quiet.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
    assert_eq!(told(&run), "");
}
