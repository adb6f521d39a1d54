//! A fault at every effect of an operation: the answer is true, and the next deploy repairs.

use std::time::Duration;

use sparkctl::event::RunOutcome;
use sparkctl::execute::Cancel;
use sparkctl::host::fake::{Behaviour, Fault, Moment};
use sparkctl::operation::Target;

use crate::asked_again;
use crate::conflicts::{hold_strangers_to_account, in_the_way, strangers_run};
use crate::delivered::{lose, with_file, with_secret};
use crate::desk::{self, Command, Desk, changed};

/// `Restored` is told of an endpoint that was asked since the failure.
fn hold_restore_to_account(run: &desk::Run) {
    if matches!(run.outcome, Some(RunOutcome::Restored { .. })) {
        assert!(asked_again(run), "told {:?} without having asked", run.outcome);
    }
}

/// Runs `command`, and wishes for its end when it has hung for a while.
async fn interrupted(desk: &Desk, command: Command) -> desk::Run {
    let (switch, cancel) = Cancel::new();
    let wish = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let _ = switch.send(true);
        std::future::pending::<()>().await;
    });
    let limit = Duration::from_secs(3600);
    let run = tokio::time::timeout(limit, desk.run_until(command, &cancel)).await;
    wish.abort();
    run.expect("an interrupt ends it")
}

/// Runs `command` once for every effect of it and every fault there; afterwards a deploy converges.
#[expect(clippy::print_stdout, reason = "what each fault led to is worth reading")]
async fn sweep(name: &str, desk: &Desk, command: Command) {
    let probe = desk.copy();
    probe.run(command).await;
    let effects = probe.cluster.effects();
    let mut runs = 0;
    for fault in [Fault::Fail, Fault::Disconnect, Fault::Hang, Fault::Die] {
        for moment in [Moment::Before, Moment::After] {
            for number in 1.. {
                // Of a question only the answer can be lost.
                let changes = effects.get(number - 1).is_none_or(|effect| effect.changes);
                if moment == Moment::After && !changes {
                    continue;
                }
                let desk = desk.copy();
                desk.cluster.fault_at(number, fault, moment);
                let run = match fault {
                    Fault::Hang => interrupted(&desk, command).await,
                    _ => desk.run(command).await,
                };
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
                hold_restore_to_account(&run);
                hold_strangers_to_account(&desk);

                let again = desk.run(Command::Deploy).await;
                println!("  then {:?}", again.outcome);
                desk.hold_to_account(&again);
                hold_strangers_to_account(&desk);
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
    assert!(runs > effects.len(), "{name}: only {runs} runs");
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_first_deploy() {
    sweep("first deploy", &Desk::seed(), Command::Deploy).await;
}

/// A benchmark that decides: it comes before anything is recorded as deployed.
#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_change_with_limits_to_keep() {
    let mut desk = Desk::seed();
    desk.profile.bench.gate = vec!["throughput@c1>20".to_owned()];
    desk.deployed().await;
    sweep("gated change", &desk.with(changed(&desk.profile)), Command::Deploy).await;
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

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_change_of_files_and_secrets() {
    let with =
        |desk: &Desk, word: &str| with_secret(&with_file(desk, word), "HF_TOKEN", &format!("value-{word}"));
    let desk = with(&Desk::seed(), "one");
    desk.deployed().await;
    sweep("files and secrets", &with(&desk, "two"), Command::Deploy).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_rollback_whose_files_a_node_lost() {
    let desk = with_secret(&with_file(&Desk::seed(), "one"), "HF_TOKEN", "value-one");
    desk.deployed().await.with(changed(&desk.profile)).deployed().await;
    lose(&desk, "spark1", "qwen35");
    sweep("lost files", &desk, Command::Rollback(Target::Before)).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_deploy_that_stops_strangers() {
    sweep("strangers stopped", &in_the_way(&Desk::seed()), Command::Deploy).await;
}

/// The engine does not start, so every run goes back: also one that goes wrong in going back.
#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_deploy_after_which_strangers_come_back() {
    let desk = in_the_way(&Desk::seed());
    let probe = desk.copy();
    probe.cluster.behave(1, Behaviour::CrashAtStart(1));
    probe.run(Command::Deploy).await;
    for (fault, moment) in [
        (Fault::Fail, Moment::Before),
        (Fault::Fail, Moment::After),
        (Fault::Disconnect, Moment::Before),
        (Fault::Die, Moment::Before),
        (Fault::Die, Moment::After),
    ] {
        for number in 1..=probe.cluster.effects().len() {
            let desk = desk.copy();
            desk.cluster.behave(1, Behaviour::CrashAtStart(1));
            desk.cluster.fault_at(number, fault, moment);
            let run = desk.run(Command::Deploy).await;
            desk.cluster.heal();
            desk.hold_to_account(&run);
            hold_strangers_to_account(&desk);
            // Release 1 is no more: whatever is deployed next is healthy.
            let again = desk.run(Command::Rollback(Target::Beginning)).await;
            desk.hold_to_account(&again);
            let at = format!("{fault:?} {moment:?} {number}: {:?}, then {:?}", run.outcome, again.outcome);
            assert!(strangers_run(&desk), "{at}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_change_over_stopped_strangers() {
    let desk = in_the_way(&Desk::seed());
    desk.deployed().await;
    sweep("change over strangers", &desk.with(changed(&desk.profile)), Command::Deploy).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_the_way_back_to_strangers() {
    let desk = in_the_way(&Desk::seed());
    desk.deployed().await;
    sweep("back to strangers", &desk, Command::Rollback(Target::Beginning)).await;
}
