//! Nobody is left to bring the release before back: the nodes do it by themselves, and say so.

use std::time::Duration;

use sparkctl::check::Finding;
use sparkctl::event::{Event, RunOutcome};
use sparkctl::guard::LEASE;
use sparkctl::host::fake::{Behaviour, Fault, Moment};
use sparkctl::operation::Target;
use sparkctl::plan::{Action, StageKind, render};
use sparkctl::status;

use crate::desk::{self, Command, Desk, changed};
use crate::{FIRST, SECOND, kill_at, number_of};

/// Long enough for every guard to act, and for what it brings back to serve.
async fn lease_passes(desk: &Desk) {
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
    // They act as soon as anybody looks.
    let _ = desk.served();
    tokio::time::sleep(Duration::from_secs(30)).await;
}

/// A release that serves, and the profile of another.
async fn changed_over_first() -> Desk {
    let desk = Desk::seed();
    desk.deployed().await.with(changed(&desk.profile))
}

fn guards(desk: &Desk) -> usize {
    let there = |node: &str| desk.cluster.machine(node, |m| usize::from(m.guard.is_some()));
    there("spark1") + there("spark2")
}

fn acted(desk: &Desk) -> usize {
    let there = |node: &str| desk.cluster.machine(node, |m| m.guarded.len());
    there("spark1") + there("spark2")
}

fn warnings(run: &desk::Run) -> Vec<&Finding> {
    let all = run.events.iter();
    all.filter_map(|event| match event {
        Event::Warning { finding } => Some(finding),
        _ => None,
    })
    .collect()
}

/// Kills the operator for good at every effect of `command`.
async fn killed_for_good(desk: &Desk, command: Command) {
    let probe = desk.copy();
    probe.run(command).await;
    let after = probe.served().unwrap().release;
    let before = desk.served().unwrap().release;
    let effects = probe.cluster.effects();
    let at = |name: &str| {
        let of = |effect: &sparkctl::host::fake::Effect| effect.name == name;
        (effects.iter().position(of).unwrap() + 1, effects.iter().rposition(of).unwrap() + 1)
    };
    let (armed, ended) = (at("guard-arm"), at("guard-end"));
    assert!(armed.1 < ended.0, "{armed:?} {ended:?}");
    for number in 1..=effects.len() {
        for moment in [Moment::Before, Moment::After] {
            let desk = desk.copy();
            desk.cluster.fault_at(number, Fault::Die, moment);
            let run = desk.run(command).await;
            let what = format!("{command:?}, killed {moment:?} effect {number}: {:?}", effects[number - 1]);
            assert!(run.outcome.is_none(), "{what}: {:?}", run.outcome);
            desk.hold_to_account(&run);
            lease_passes(&desk).await;
            assert_eq!(guards(&desk), 0, "{what}");
            let served = desk.served().filter(|served| served.completes).map(|served| served.release);
            if (number, moment) <= (ended.0, Moment::Before) {
                assert_eq!(served, Some(before), "{what}");
            } else if number > ended.1 {
                assert_eq!(served, Some(after), "{what}");
            }
            // Else one node has heard the last word and another has not: half a group, which the next one mends.
            assert!(desk.cluster.violations().is_empty(), "{what}");
            desk.cluster.heal();
            let again = desk.run(Command::Deploy).await;
            desk.hold_to_account(&again);
            let told = warnings(&again).iter().any(|finding| finding.id == "guard-acted");
            let well =
                matches!(again.outcome, Some(RunOutcome::Deployed { .. } | RunOutcome::NothingToDo { .. }));
            assert!(well, "{what}: then {:?}", again.outcome);
            assert!(told || !(armed.1 + 1..ended.0).contains(&number), "{what}: nobody told");
            assert!(desk.plan().await.plan.is_empty(), "{what}: there is still something to do");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_killed_for_good_at_every_effect_of_a_change() {
    killed_for_good(&changed_over_first().await, Command::Deploy).await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_killed_for_good_at_every_effect_of_a_rollback() {
    let desk = changed_over_first().await;
    desk.deployed().await;
    killed_for_good(&desk, Command::Rollback(Target::Before)).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_deploy_is_taken_back_whole() {
    let desk = Desk::seed();
    kill_at(&desk, "http /v1/models").await;
    assert_eq!(desk.running(), 2);
    lease_passes(&desk).await;
    assert_eq!((desk.running(), acted(&desk)), (0, 2));
    for node in ["spark1", "spark2"] {
        let folder = ("qwen35-122b".to_owned(), "0001".to_owned());
        let logs = desk.cluster.machine(node, |m| m.releases[&folder].logs.clone());
        assert!(logs.values().any(|log| log.contains("INFO: starting")), "no log is kept: {logs:?}");
    }
    desk.deployed().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_nodes_did_is_told_until_the_next_switch() {
    let desk = changed_over_first().await;
    kill_at(&desk, "http /v1/models").await;
    let waiting = status::ask(&desk.profile, &desk.hosts(), &[]).await;
    let told = |status: &status::Status| {
        status.warnings.iter().map(|warning| warning.message.clone()).collect::<Vec<_>>().join("\n")
    };
    assert!(told(&waiting).contains("the switch to release 2 has not ended"), "{}", told(&waiting));
    lease_passes(&desk).await;
    let status = status::ask(&desk.profile, &desk.hosts(), &[]).await;
    assert!(
        told(&status).contains("the nodes restored release 1 by themselves at 2026-"),
        "{}",
        told(&status)
    );
    assert!(status.is_well() && desk.serves(FIRST), "{:?}", status.problems);
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(warnings(&run).iter().any(|finding| finding.id == "guard-acted"));
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
    let status = status::ask(&desk.profile, &desk.hosts(), &[]).await;
    assert_eq!(told(&status), "");
}

/// As long as the operator works, however long that takes, nothing happens by itself; and nothing is left of the guards.
#[tokio::test(start_paused = true)]
async fn a_long_start_is_nobodys_absence() {
    let desk = changed_over_first().await;
    desk.cluster.behave(2, Behaviour::CompilesLong);
    desk.deployed().await;
    assert!(desk.serves(SECOND));
    assert_eq!((guards(&desk), acted(&desk)), (0, 0));
    lease_passes(&desk).await;
    assert!(desk.serves(SECOND));
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_no_guard_is_left() {
    let desk = changed_over_first().await;
    desk.cluster.behave(2, Behaviour::NeverReady);
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Restored { .. })), "{:?}", run.outcome);
    assert_eq!((guards(&desk), acted(&desk)), (0, 0));
}

/// The way to one node is lost for good: what the nodes do then, each by itself, is the same group again.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_lost_for_good_goes_back_by_itself() {
    let desk = changed_over_first().await;
    let number = number_of(&desk, "http /v1/models").await;
    desk.cluster.fault_at(number, Fault::Disconnect, Moment::Before);
    let run = desk.run(Command::Deploy).await;
    let Some(RunOutcome::Down { why, .. }) = &run.outcome else { panic!("{:?}", run.outcome) };
    assert!(why.contains("nodes that have a guard restore release 1 by themselves within 4 min"), "{why}");
    lease_passes(&desk).await;
    assert!(desk.serves(FIRST));
    assert_eq!(acted(&desk), 2);
}

/// It was lost for longer than its guard waits, and is back when the operator tries again: what the nodes did stays, and
/// is completed.
#[tokio::test(start_paused = true)]
async fn what_a_node_did_meanwhile_is_not_undone() {
    let desk = changed_over_first().await;
    desk.cluster.behave(2, Behaviour::NeverReady);
    let worker = desk.profile.cluster.nodes[1].name.clone();
    let cut = async {
        // The nodes' guards count from the last sign of life.
        tokio::time::sleep(Duration::from_secs(60)).await;
        desk.cluster.machine(worker.as_str(), |m| m.guard.as_mut().unwrap().passes());
        std::future::pending::<()>().await;
    };
    let run = tokio::select! {
        run = desk.run(Command::Deploy) => run,
        () = cut => unreachable!(),
    };
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Restored { release: FIRST, .. })), "{:?}", run.outcome);
    assert!(desk.serves(FIRST));
    assert!(warnings(&run).iter().any(|finding| finding.id == "guard-acted"));
}

#[tokio::test(start_paused = true)]
async fn where_one_node_can_have_no_guard_none_has_one() {
    let desk = changed_over_first().await;
    desk.cluster.machine("spark2", |m| m.user.lingering = None);
    let text = render::text(&desk.plan().await.plan, false);
    let line = "guard     nodes restore release 1 by themselves if this machine is gone for 4 min 0 s";
    assert!(text.contains(line), "{text}");
    let probe = desk.copy();
    kill_at(&probe, "http /v1/models").await;
    assert_eq!(guards(&probe), 0);
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    let told = warnings(&run);
    let told = told.iter().find(|finding| finding.id == "guard-absent").unwrap();
    assert!(told.message.contains("no node restores anything by itself"), "{told}");
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
}

/// The unit is gone with the boot: nothing acts, and that is told.
#[tokio::test(start_paused = true)]
async fn a_guard_does_not_outlive_a_boot() {
    let desk = changed_over_first().await;
    kill_at(&desk, "create-container").await;
    desk.cluster.reboot();
    lease_passes(&desk).await;
    assert_eq!((desk.running(), acted(&desk)), (0, 0));
    let status = status::ask(&desk.profile, &desk.hosts(), &[]).await;
    let told = status.warnings.iter().any(|warning| warning.message.contains("booted in the middle"));
    assert!(told, "{:?}", status.warnings);
    desk.deployed().await;
    assert_eq!(guards(&desk), 0);
}

#[tokio::test(start_paused = true)]
async fn who_stops_a_cut_short_deploy_is_not_undone() {
    let desk = changed_over_first().await;
    kill_at(&desk, "http /v1/models").await;
    assert_eq!(guards(&desk), 2);
    let run = desk.run(Command::Stop).await;
    desk.hold_to_account(&run);
    lease_passes(&desk).await;
    assert_eq!(desk.running(), 0);
}

/// Failed containers that are to be looked at are not removed by anybody.
#[tokio::test(start_paused = true)]
async fn no_guard_where_a_failed_release_is_to_be_kept() {
    let mut desk = changed_over_first().await;
    desk.profile.on_failure = sparkctl::profile::OnFailure::Keep;
    let plan = desk.plan().await.plan;
    let guard = |stage: &sparkctl::plan::Stage| stage.kind == StageKind::Guard;
    assert!(!plan.stages.iter().any(guard));
    let arms = |step: &sparkctl::plan::Step| matches!(step.action, Action::Arm { .. });
    assert!(!plan.stages.iter().flat_map(|stage| &stage.steps).any(arms));
}
