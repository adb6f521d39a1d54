//! A node that is away when its group is stopped: what it runs when it is back is told, and ends by the next stop or deploy.

use sparkctl::error::Exit;
use sparkctl::event::{Events, RunOutcome};
use sparkctl::execute::{Cancel, Hosts};
use sparkctl::host::HostError;
use sparkctl::host::fake::{Fault, Moment};
use sparkctl::operation::Operation;
use sparkctl::profile::NodeName;
use sparkctl::release::ReleaseNumber;
use sparkctl::release::lock::Claim;
use sparkctl::status::{Health, Status, ask};

use crate::desk::{Command, Desk, operator};

/// A stop while `away` cannot be connected to; no outcome where the operator was killed.
async fn stop_without(desk: &Desk, away: &str) -> Option<RunOutcome> {
    let (there, gone): (Hosts, Hosts) = desk.hosts().into_iter().partition(|(node, _)| node.as_str() != away);
    let errors: Vec<(NodeName, HostError)> = gone
        .into_keys()
        .map(|node| {
            let (host, why) = (node.to_string(), "connection timed out".to_owned());
            (node.clone(), HostError::Connect { node, host, why })
        })
        .collect();
    let (events, mut receiver) = Events::channel();
    let reading = tokio::spawn(async move { while receiver.recv().await.is_some() {} });
    let (_switch, cancel) = Cancel::new();
    let (operator, claim) = (operator(), Claim::new());
    let operation = Operation {
        profile: &desk.profile,
        hosts: &there,
        operator: &operator,
        events: &events,
        cancel: &cancel,
        reconnect: &there,
        claim: &claim,
    };
    let outcome = tokio::select! {
        biased;
        () = desk.cluster.died() => None,
        outcome = operation.stop_without(&errors) => Some(outcome),
    };
    drop(events);
    reading.await.unwrap();
    outcome
}

async fn asked(desk: &Desk) -> Status {
    ask(&desk.profile, &desk.hosts(), &[]).await
}

/// The files that say what must not run, on both nodes.
fn remembered(desk: &Desk) -> usize {
    ["spark1", "spark2"].map(|node| desk.cluster.machine(node, |m| m.ended.len())).iter().sum()
}

#[tokio::test(start_paused = true)]
async fn the_group_is_stopped_where_it_can_be_and_the_rest_is_remembered() {
    for (away, there, rank) in [("spark2", "spark1", 1), ("spark1", "spark2", 0)] {
        let desk = Desk::seed();
        desk.deployed().await;
        let outcome = stop_without(&desk, away).await.unwrap();
        assert_eq!(outcome.exit(), Exit::Unreachable, "{outcome:?}");
        let RunOutcome::Unreachable { state, errors, .. } = &outcome else { panic!("{outcome:?}") };
        assert_eq!(
            *state,
            format!(
                "nothing runs on {there}; what may run on {away} ends by the next stop or deploy that reaches it"
            )
        );
        assert!(errors[0].contains("connection timed out"), "{errors:?}");
        assert_eq!((desk.running(), remembered(&desk)), (1, 1));

        // It is back, and so is its container.
        desk.cluster.reboot();
        let status = asked(&desk).await;
        assert_eq!((status.health, status.release), (Health::Stopped, None), "{:?}", status.problems);
        let wanted = format!(
            "{away} runs rank {rank} of release 1, which was stopped on 2026-03-01 09:00 UTC by ada@laptop"
        );
        assert!(status.problems.iter().any(|it| it.message.starts_with(&wanted)), "{:?}", status.problems);
        let screen = sparkctl::report::status::status(&status, jiff::Timestamp::UNIX_EPOCH, false);
        assert!(screen.contains(&wanted), "{screen}");

        for command in [Command::Stop, Command::Deploy] {
            let desk = desk.copy();
            let run = desk.run(command).await;
            desk.hold_to_account(&run);
            assert_eq!(remembered(&desk), 0, "{:?}", run.outcome);
            match command {
                Command::Stop => {
                    assert!(matches!(run.outcome, Some(RunOutcome::Stopped { .. })), "{:?}", run.outcome)
                }
                _ => {
                    assert!(matches!(
                        run.outcome,
                        Some(RunOutcome::Deployed { release: ReleaseNumber(2), .. })
                    ));
                    assert!(asked(&desk).await.problems.is_empty());
                    assert!(desk.plan().await.plan.is_empty());
                }
            }
        }
    }
}

/// Stopped once more while it is still away: nothing changes.
#[tokio::test(start_paused = true)]
async fn a_second_stop_changes_nothing() {
    let desk = Desk::seed();
    desk.deployed().await;
    stop_without(&desk, "spark2").await;
    desk.cluster.forget_effects();
    let outcome = stop_without(&desk, "spark2").await.unwrap();
    assert_eq!(outcome.exit(), Exit::Unreachable);
    let changes: Vec<_> = desk.cluster.effects().into_iter().filter(|effect| effect.changes).collect();
    assert!(changes.is_empty(), "{changes:?}");
}

/// Nothing was ever deployed: there is nothing to remember.
#[tokio::test(start_paused = true)]
async fn where_nothing_was_nothing_is_remembered() {
    let desk = Desk::seed();
    let outcome = stop_without(&desk, "spark2").await.unwrap();
    assert_eq!((outcome.exit(), remembered(&desk)), (Exit::Unreachable, 0));
}

/// A rollback to the very release that was stopped without the node: what runs then is no orphan.
#[tokio::test(start_paused = true)]
async fn what_is_brought_back_may_run_again() {
    let desk = Desk::seed();
    desk.deployed().await;
    stop_without(&desk, "spark2").await;
    let target = sparkctl::operation::Target::Number(ReleaseNumber(1));
    let run = desk.run(Command::Rollback(target)).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
    assert_eq!(remembered(&desk), 0);
    assert!(asked(&desk).await.is_well());
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_stop_without_a_node() {
    for (fault, moment) in [
        (Fault::Fail, Moment::Before),
        (Fault::Fail, Moment::After),
        (Fault::Disconnect, Moment::Before),
        (Fault::Die, Moment::Before),
        (Fault::Die, Moment::After),
    ] {
        for number in 1.. {
            let desk = Desk::seed();
            desk.deployed().await;
            desk.cluster.fault_at(number, fault, moment);
            let outcome = stop_without(&desk, "spark2").await;
            if desk.cluster.fault_ahead() {
                break;
            }
            let at = format!("{fault:?} {moment:?} {number}: {outcome:?}");
            assert!(number < 100, "{at}");
            if let Some(RunOutcome::Unreachable { state, .. }) = &outcome
                && state.starts_with("nothing runs on")
            {
                assert_eq!((desk.running(), remembered(&desk)), (1, 1), "{at}");
            }
            desk.cluster.heal();
            let run = desk.run(Command::Deploy).await;
            desk.hold_to_account(&run);
            assert!(
                matches!(run.outcome, Some(RunOutcome::Deployed { .. } | RunOutcome::NothingToDo { .. })),
                "{at}: then {:?}",
                run.outcome
            );
            assert_eq!(remembered(&desk), 0, "{at}");
            assert!(desk.plan().await.plan.is_empty(), "{at}");
        }
    }
}
