//! Operations on machines in memory: what they leave behind, whatever state they begin from and
//! wherever they are cut.

mod desk;

use desk::{Command, Desk, changed};
use sparkctl::event::{Event, RunOutcome};
use sparkctl::execute::Cancel;
use sparkctl::host::fake::{Behaviour, Fault, Moment};
use sparkctl::operation::Target;
use sparkctl::release::{Outcome, ReleaseNumber};

const FIRST: ReleaseNumber = ReleaseNumber(1);
const SECOND: ReleaseNumber = ReleaseNumber(2);

/// Runs `command` once for every effect of it and every fault there; afterwards a deploy converges.
async fn sweep(name: &str, desk: &Desk, command: Command) {
    let mut runs = 0;
    for fault in [Fault::Fail, Fault::Disconnect, Fault::Die] {
        for moment in [Moment::Before, Moment::After] {
            for number in 1.. {
                let desk = desk.copy();
                desk.cluster.fault_at(number, fault, moment);
                let run = desk.run(command).await;
                if desk.cluster.fault_ahead() {
                    desk.hold_to_account(&run);
                    break;
                }
                let effects = desk.cluster.effects();
                let at = format!("{name}: {fault:?} {moment:?} {:?}", effects.get(number - 1));
                println!("{at}: {:?}", run.outcome);
                runs += 1;
                assert!(number < 500, "{at}: no end of it");
                assert_eq!(run.outcome.is_none(), fault == Fault::Die, "{at}");
                assert!(!desk.cluster.locked(), "{at}: a lock stays behind");
                desk.cluster.heal();
                desk.hold_to_account(&run);

                let again = desk.run(Command::Deploy).await;
                println!("  then {:?}", again.outcome);
                desk.hold_to_account(&again);
                assert!(
                    matches!(
                        again.outcome,
                        Some(RunOutcome::Deployed { .. } | RunOutcome::NothingToDo { .. })
                    ),
                    "{at}: the next deploy ended with {:?}",
                    again.outcome
                );
                assert!(desk.plan().await.plan.is_empty(), "{at}: there is still something to do");
            }
        }
    }
    println!("{name}: {runs} runs with a fault");
    assert!(runs > 50, "{name}: only {runs} runs");
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_first_deploy() {
    sweep("first deploy", &Desk::seed(), Command::Deploy).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_change() {
    let desk = Desk::seed();
    desk.deployed().await;
    sweep("change", &desk.with(changed(&desk.profile)), Command::Deploy).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_rollback() {
    let desk = Desk::seed();
    desk.deployed().await.with(changed(&desk.profile)).deployed().await;
    sweep("rollback", &desk, Command::Rollback(Target::Before)).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_stop() {
    let desk = Desk::seed();
    desk.deployed().await;
    sweep("stop", &desk, Command::Stop).await;
}

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
        (Behaviour::CrashAtStart(0), "rank 0 on spark1 ended (exit status 1)"),
        (Behaviour::CrashAtStart(1), "rank 1 on spark2 ended (exit status 1)"),
        (Behaviour::WrongModel, "the endpoint lists [\"another-model\"], not `qwen3.5-122b`"),
        (Behaviour::WrongAnswers, "`paris` is not in it"),
    ] {
        let (desk, run) = bad_change(behaviour).await;
        let restored = matches!(run.outcome, Some(RunOutcome::Restored { failed: SECOND, release: FIRST }));
        assert!(restored, "{behaviour:?}: {:?}", run.outcome);
        assert_eq!(run.outcome.as_ref().unwrap().exit() as u8, 4);
        let told = run.events.iter().find_map(|event| match event {
            Event::Failed { failure } => Some(failure.chain.join(": ")),
            _ => None,
        });
        assert!(told.as_ref().is_some_and(|told| told.contains(words)), "{behaviour:?}: {told:?}");
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

/// The operator is killed while nothing serves, and what is deployed next fails as well.
#[tokio::test(start_paused = true)]
async fn what_served_before_a_killed_deploy_comes_back() {
    let desk = Desk::seed();
    desk.deployed().await;
    let desk = desk.with(changed(&desk.profile));
    let effects = desk.cluster.effects().len();
    let probe = desk.copy();
    probe.run(Command::Deploy).await;
    let creation = probe.cluster.effects().iter().position(|e| e.name.starts_with("create-container"));
    let desk = desk.copy();
    assert!(effects > 0);
    desk.cluster.fault_at(creation.unwrap() + 1, Fault::Die, Moment::Before);
    let run = desk.run(Command::Deploy).await;
    assert!(run.outcome.is_none());
    assert_eq!(desk.running(), 0);
    desk.cluster.heal();
    desk.cluster.behave(3, Behaviour::CrashAtStart(0));
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Restored { release: FIRST, .. })), "{:?}", run.outcome);
}

/// The same, and the operator asks for the release before.
#[tokio::test(start_paused = true)]
async fn a_rollback_after_a_killed_deploy_brings_back_what_served() {
    let desk = Desk::seed();
    desk.deployed().await;
    let changed = desk.with(changed(&desk.profile));
    let probe = changed.copy();
    probe.run(Command::Deploy).await;
    let creation = probe.cluster.effects().iter().position(|e| e.name.starts_with("create-container"));
    let killed = changed.copy();
    killed.cluster.fault_at(creation.unwrap() + 1, Fault::Die, Moment::Before);
    killed.run(Command::Deploy).await;
    killed.cluster.heal();
    let run = killed.run(Command::Rollback(Target::Before)).await;
    killed.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { release: FIRST, .. })), "{:?}", run.outcome);
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
    for node in desk.cluster.nodes() {
        desk.cluster.reboot(&node);
    }
    assert_eq!(desk.running(), 2);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert!(desk.serves(FIRST));
}

#[tokio::test(start_paused = true)]
async fn one_operation_at_a_time() {
    let desk = Desk::seed();
    let (first, second) = tokio::join!(desk.run(Command::Deploy), desk.run(Command::Deploy));
    assert!(matches!(first.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", first.outcome);
    let Some(RunOutcome::Locked { holder }) = second.outcome else { panic!("{:?}", second.outcome) };
    assert!(holder.starts_with("ada@laptop, `deploy`, since 2026-03-01T09:00:00"), "{holder}");
}

/// The wish to end comes while a call never completes.
async fn interrupted_at(desk: &Desk, effect: &str) -> desk::Run {
    let probe = desk.copy();
    probe.run(Command::Deploy).await;
    let at = probe.cluster.effects().iter().position(|e| e.name.starts_with(effect)).unwrap() + 1;
    desk.cluster.forget_effects();
    desk.cluster.fault_at(at, Fault::Hang, Moment::Before);
    let (switch, cancel) = Cancel::new();
    let wish = async {
        tokio::time::sleep(std::time::Duration::from_secs(120)).await;
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
