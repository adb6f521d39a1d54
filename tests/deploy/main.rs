//! Operations on machines in memory: what they leave behind, whatever state they begin from and
//! wherever they are cut.

#![expect(clippy::unwrap_used, reason = "what a test takes for granted may panic")]

mod bench;
mod delivered;
#[path = "../desk/mod.rs"]
mod desk;
mod endpoint;
mod faults;
mod hooks;
mod images;
mod journal;
mod lock;
mod outcomes;
mod prune;
mod refusals;
mod states;
mod status;
mod sync;

use std::net::Ipv4Addr;
use std::time::Duration;

use desk::{Command, Desk, changed, recorded_sparks, seed_profile};
use sparkctl::delivery::Delivery;
use sparkctl::event::{Event, RunOutcome, Rung};
use sparkctl::execute::Cancel;
use sparkctl::host::FakeCluster;
use sparkctl::host::fake::{Behaviour, Fault, Moment};
use sparkctl::operation::Target;
use sparkctl::plan::{Action, StageKind, render};
use sparkctl::release::{Outcome, ReleaseNumber};

const FIRST: ReleaseNumber = ReleaseNumber(1);
const SECOND: ReleaseNumber = ReleaseNumber(2);

/// A deploy over release 1 of an engine that behaves badly.
async fn bad_change(behaviour: Behaviour) -> (Desk, desk::Run) {
    let desk = Desk::seed();
    desk.deployed().await;
    desk.cluster.behave(2, behaviour);
    let desk = desk.with(changed(&desk.profile));
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    (desk, run)
}

#[tokio::test(start_paused = true)]
async fn a_release_that_does_not_serve_rightly_gives_way_to_the_one_before() {
    for (behaviour, words) in [
        (Behaviour::NeverReady, "nothing has moved for 10 min"),
        // Though the ranks keep a core busy each: they wait for one another.
        (Behaviour::NeverConnected, "nothing has moved for 2 min 3"),
        (Behaviour::CrashAtStart(0), "rank 0 on spark1 ended (exit status 1)"),
        (Behaviour::CrashAtStart(1), "rank 1 on spark2 ended (exit status 1)"),
        (Behaviour::WrongModel, "the endpoint lists [\"another-model\"], not `qwen3.5-122b`"),
        (Behaviour::WrongAnswers, "`paris` is not in it"),
    ] {
        let (desk, run) = bad_change(behaviour).await;
        let restored = matches!(run.outcome, Some(RunOutcome::Restored { failed: SECOND, release: FIRST }));
        assert!(restored, "{behaviour:?}: {:?}", run.outcome);
        assert_eq!(run.outcome.as_ref().unwrap().exit() as u8, 4);
        let failure = run.events.iter().find_map(|event| match event {
            Event::Failed { failure } => Some(failure),
            _ => None,
        });
        let told = failure.unwrap().chain.join(": ");
        assert!(told.contains(words), "{behaviour:?}: {told}");
        let node = failure.unwrap().node.as_ref().unwrap().as_str();
        let guilty = if behaviour == Behaviour::CrashAtStart(1) { "spark2" } else { "spark1" };
        assert_eq!(node, guilty, "{behaviour:?}: {told}");
        let outcomes = desk.recorded(SECOND).await;
        assert!(outcomes.iter().all(|o| matches!(o, Some(Outcome::Failed(_)))), "{outcomes:?}");
        assert_eq!(desk.recorded(FIRST).await, vec![Some(Outcome::Deployed); 2]);
        for (rank, node) in [(0, "spark1"), (1, "spark2")] {
            let folder = ("qwen35-122b".to_owned(), "0002".to_owned());
            let log = desk.cluster.machine(node, |m| m.releases[&folder].logs.get(&rank).cloned());
            assert!(log.is_some_and(|log| log.contains("INFO: starting")), "{behaviour:?}: no log is kept");
        }
    }
}

/// A first start may compile for longer than anything may be silent: that it computes is enough.
#[tokio::test(start_paused = true)]
async fn a_long_silent_compilation_is_waited_for() {
    let desk = Desk::seed();
    desk.cluster.behave(1, Behaviour::CompilesLong);
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { release: FIRST, .. })), "{:?}", run.outcome);
}

#[tokio::test(start_paused = true)]
async fn each_rung_is_told_and_the_engines_own_figures_are_recorded() {
    let desk = Desk::seed();
    let run = desk.run(Command::Deploy).await;
    let rungs: Vec<_> = run
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Reached { rung, .. } => Some(*rung),
            _ => None,
        })
        .collect();
    assert_eq!(
        rungs,
        [
            Rung::Up,
            Rung::Joined,
            Rung::Http,
            Rung::Listed,
            Rung::Token,
            Rung::Chat,
            Rung::Reasoning,
            Rung::ToolCall,
            Rung::Stream
        ]
    );
    for facts in sparkctl::operation::look(&desk.profile, &desk.hosts()).await.unwrap() {
        let figures = &facts.releases[0].figures.engine;
        assert_eq!((figures.weights_gib, figures.kv_cache_tokens), (Some(63.24), Some(1_234_567)));
    }
}

/// What the ranks said last is told, and what was seen of them when nothing moved.
#[tokio::test(start_paused = true)]
async fn a_failure_tells_the_last_lines_of_each_rank() {
    let (_, run) = bad_change(Behaviour::NeverConnected).await;
    let told: Vec<_> = run
        .events
        .iter()
        .filter_map(|event| match event {
            Event::LastLines { node, lines, .. } => Some((node.as_str(), lines.last()?.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].0 == "spark1" && told[0].1.contains("Custom allreduce is disabled"), "{told:?}");
    assert!(told[1].0 == "spark2" && told[1].1.contains("INFO: starting"), "{told:?}");
    let seen = run.events.iter().filter(|event| matches!(event, Event::Stuck { .. })).count();
    assert_eq!(seen, 2);
    let failure = run.events.iter().find_map(|event| match event {
        Event::Failed { failure } => failure.diagnosis.as_ref(),
        _ => None,
    });
    assert_eq!(failure.unwrap().id, Some("MQ-HANG"));
}

#[tokio::test(start_paused = true)]
async fn a_first_deploy_that_fails_leaves_nothing_running() {
    let desk = Desk::seed();
    desk.cluster.behave(1, Behaviour::CrashAtStart(1));
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Down { failed: Some(FIRST), .. })), "{:?}", run.outcome);
    assert_eq!(desk.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn where_it_is_to_be_kept_a_failed_release_stays_to_be_looked_at() {
    let mut desk = Desk::seed();
    desk.profile.on_failure = sparkctl::profile::OnFailure::Keep;
    desk.cluster.behave(1, Behaviour::WrongAnswers);
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Down { .. })), "{:?}", run.outcome);
    assert_eq!(desk.running(), 2);
}

/// The number of the first effect of a deploy whose name begins so, counted from 1.
async fn number_of(desk: &Desk, effect: &str) -> usize {
    let probe = desk.copy();
    probe.run(Command::Deploy).await;
    probe.cluster.effects().iter().position(|e| e.name.starts_with(effect)).unwrap() + 1
}

/// The operator is killed in a deploy, before the first effect whose name begins so.
async fn kill_at(desk: &Desk, effect: &str) {
    desk.cluster.fault_at(number_of(desk, effect).await, Fault::Die, Moment::Before);
    let run = desk.run(Command::Deploy).await;
    assert!(run.outcome.is_none(), "{:?}", run.outcome);
    desk.hold_to_account(&run);
    desk.cluster.heal();
}

/// A cluster whose operator was killed in a change, while nothing served.
async fn killed_change() -> Desk {
    let desk = Desk::seed();
    let desk = desk.deployed().await.with(changed(&desk.profile));
    kill_at(&desk, "create-container").await;
    assert_eq!(desk.running(), 0);
    desk
}

#[tokio::test(start_paused = true)]
async fn what_served_before_a_killed_deploy_comes_back_when_the_next_one_fails() {
    let desk = killed_change().await;
    desk.cluster.behave(3, Behaviour::CrashAtStart(0));
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Restored { release: FIRST, .. })), "{:?}", run.outcome);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_after_a_killed_deploy_brings_back_what_served() {
    let desk = killed_change().await;
    let run = desk.run(Command::Rollback(Target::Before)).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { release: FIRST, .. })), "{:?}", run.outcome);
}

/// Nothing was asked of the release that went on serving, so nothing is claimed of it but that.
#[tokio::test(start_paused = true)]
async fn a_stop_that_fails_at_once_is_no_restore() {
    let desk = Desk::seed();
    let desk = desk.deployed().await.with(changed(&desk.profile));
    let number = number_of(&desk, "set-restart").await;
    desk.cluster.fault_at(number, Fault::Fail, Moment::Before);
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(
        !matches!(run.outcome, Some(RunOutcome::Restored { .. })) || asked_again(&run),
        "{:?}",
        run.outcome
    );
}

/// Whether the endpoint was verified after a failure.
fn asked_again(run: &desk::Run) -> bool {
    let failed = run.events.iter().position(|event| matches!(event, Event::Failed { .. }));
    run.events[failed.unwrap_or_default()..]
        .iter()
        .any(|event| matches!(event, Event::StageDone { stage: StageKind::Verify, .. }))
}

#[tokio::test(start_paused = true)]
async fn what_was_stopped_on_purpose_stays_stopped() {
    let desk = Desk::seed();
    desk.deployed().await.run(Command::Stop).await;
    desk.cluster.behave(2, Behaviour::CrashAtStart(0));
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Down { .. })), "{:?}", run.outcome);
    assert_eq!(desk.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deploy_comes_back_after_a_reboot_and_a_killed_one_does_not() {
    let desk = Desk::seed();
    desk.deployed().await;
    let killed = Desk::seed();
    desk.cluster.reboot();
    assert_eq!(desk.running(), 2);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(desk.serves(FIRST));

    kill_at(&killed, "http /v1/chat/completions").await;
    assert_eq!(killed.running(), 2);
    killed.cluster.reboot();
    assert_eq!(killed.running(), 0);
}

/// A node that boots in the middle of a stop does not bring back what was to end.
#[tokio::test(start_paused = true)]
async fn a_stop_that_was_killed_is_not_undone_by_a_reboot() {
    let desk = Desk::seed();
    let desk = desk.deployed().await.copy();
    let probe = desk.copy();
    probe.run(Command::Stop).await;
    let stop = probe.cluster.effects().iter().position(|e| e.name.starts_with("stop-container")).unwrap();
    desk.cluster.fault_at(stop + 1, Fault::Die, Moment::Before);
    assert!(desk.run(Command::Stop).await.outcome.is_none());
    assert_eq!(desk.running(), 2);
    desk.cluster.heal();
    desk.cluster.reboot();
    assert_eq!(desk.running(), 0, "both ranks were to end, and a reboot brings one back");
}

#[tokio::test(start_paused = true)]
async fn one_operation_at_a_time() {
    let desk = Desk::seed();
    let (first, second) = tokio::join!(desk.run(Command::Deploy), desk.run(Command::Deploy));
    let (done, locked) = match first.outcome {
        Some(RunOutcome::Locked { .. }) => (second.outcome, first.outcome),
        _ => (first.outcome, second.outcome),
    };
    assert!(matches!(done, Some(RunOutcome::Deployed { .. })), "{done:?}");
    let Some(RunOutcome::Locked { holder }) = locked else { panic!("{locked:?}") };
    assert!(
        holder.starts_with("ada@laptop, `deploy` of `qwen35-122b`, since 2026-03-01T09:00:00"),
        "{holder}"
    );
}

/// The wish to end comes while a call never completes.
async fn interrupted_at(desk: &Desk, effect: &str) -> desk::Run {
    desk.cluster.fault_at(number_of(desk, effect).await, Fault::Hang, Moment::Before);
    let (switch, cancel) = Cancel::new();
    let wish = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        switch.send(true).unwrap();
        std::future::pending::<()>().await;
    };
    let run = tokio::select! {
        run = desk.run_until(Command::Deploy, &cancel) => run,
        () = wish => unreachable!(),
    };
    desk.hold_to_account(&run);
    run
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_while_a_node_does_not_answer_ends_at_once() {
    for effect in ["lock", "gather", "containers"] {
        let run = interrupted_at(&Desk::seed(), effect).await;
        let Some(RunOutcome::Interrupted { state }) = &run.outcome else { panic!("{:?}", run.outcome) };
        assert_eq!(state, "nothing was changed");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_while_bytes_move_leaves_what_serves() {
    let desk = Desk::seed();
    let run = interrupted_at(&desk, "pull-weights: whole").await;
    assert!(matches!(run.outcome, Some(RunOutcome::Interrupted { .. })), "{:?}", run.outcome);
    assert_eq!(run.outcome.unwrap().exit() as u8, 130);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_while_nothing_serves_brings_the_release_before_back() {
    let desk = Desk::seed();
    desk.deployed().await;
    let desk = desk.with(changed(&desk.profile));
    let run = interrupted_at(&desk, "create-container").await;
    let Some(RunOutcome::Interrupted { state }) = &run.outcome else { panic!("{:?}", run.outcome) };
    assert!(state.contains("release 1"), "{state}");
    assert!(desk.serves(FIRST));
}

/// Four machines as recorded, with `files` of the model on the head alone.
fn four_sparks() -> Desk {
    let mut profile = seed_profile();
    for number in 3..5 {
        let mut node = profile.cluster.nodes[1].clone();
        node.name = format!("spark{number}").parse().unwrap();
        node.host = format!("10.1.230.18{number}");
        node.fabric = Ipv4Addr::new(192, 168, 200, 12 + number - 1);
        profile.cluster.nodes.push(node);
    }
    profile.engine.tensor_parallel = 4;
    let mut facts = recorded_sparks(&profile);
    for (number, facts) in facts.iter_mut().enumerate().skip(1) {
        facts.model = None;
        // The devices' GIDs are those of the second node.
        let ports = facts.rdma_devices.iter_mut().flat_map(|device| &mut device.ports);
        for gid in ports.flat_map(|port| &mut port.gids) {
            if let Some([a, b, c, _]) = gid.ipv4().map(|address| address.octets()) {
                gid.gid = Ipv4Addr::new(a, b, c, 12 + u8::try_from(number).unwrap()).to_ipv6_mapped();
            }
        }
    }
    let cluster = FakeCluster::recorded(&facts, &profile.model.path);
    Desk { cluster, profile, delivery: Delivery::default() }
}

#[tokio::test(start_paused = true)]
async fn several_nodes_pass_the_weights_on() {
    let desk = four_sparks();
    let plan = desk.plan().await.plan;
    let weights = plan.stages.iter().find(|stage| stage.kind == StageKind::Weights).unwrap();
    let from = |step: &sparkctl::plan::Step| match &step.action {
        Action::CopyWeights { from, .. } => from.to_string(),
        other => panic!("{other:?}"),
    };
    let by_head = weights.steps.iter().filter(|step| from(step) == "spark1").count();
    assert!(
        weights.steps.len() > 30 && by_head < weights.steps.len() / 2,
        "{by_head} of {}",
        weights.steps.len()
    );
    let text = render::text(&plan, false);
    let line = text.lines().find(|line| line.contains("→ spark4   ")).unwrap();
    assert!(line.contains("spark2") && line.contains("39 files, 119 GB"), "{line}");
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
    let folder =
        |node: &str| desk.cluster.machine(node, |m| m.folders[&desk.profile.model.path].files.clone());
    for node in ["spark2", "spark3", "spark4"] {
        assert_eq!(folder(node), folder("spark1"));
    }
    assert!(desk.plan().await.plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn where_passing_on_fails_the_next_run_brings_what_is_missing() {
    let probe = four_sparks();
    probe.run(Command::Deploy).await;
    let pulls: Vec<_> =
        probe.cluster.effects().iter().map(|effect| effect.name.starts_with("pull-weights")).collect();
    let pulls: Vec<_> = (1..=pulls.len()).filter(|at| pulls[at - 1]).collect();
    for at in pulls.iter().step_by(pulls.len() / 9) {
        for (fault, moment) in [(Fault::Die, Moment::Before), (Fault::Fail, Moment::After)] {
            let desk = four_sparks();
            desk.cluster.fault_at(*at, fault, moment);
            let run = desk.run(Command::Deploy).await;
            assert!(!matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
            desk.cluster.heal();
            desk.deployed().await;
            assert!(desk.plan().await.plan.is_empty());
        }
    }
}
