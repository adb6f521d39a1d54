//! Containers that are what is wanted are left running, whoever started them.

use sparkctl::container::Rank;
use sparkctl::error::Exit;
use sparkctl::event::RunOutcome;
use sparkctl::host::{Host, NewContainer};
use sparkctl::release::{Outcome, ReleaseNumber};

use crate::desk::{Command, Desk, Run, changed};

const FIRST: ReleaseNumber = ReleaseNumber(1);

/// IDs of all containers that run.
fn running(desk: &Desk) -> Vec<String> {
    let of = |node: &str| {
        desk.cluster.machine(node, |m| {
            let running = m.containers.values().filter(|c| c.container.state.running);
            running.map(|c| c.container.id.clone()).collect::<Vec<_>>()
        })
    };
    ["spark1", "spark2"].into_iter().flat_map(of).collect()
}

/// A deploy that finds all as it should be, and touches no container.
async fn changes_nothing(desk: &Desk) -> Run {
    let before = running(desk);
    desk.cluster.forget_effects();
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert_eq!(running(desk), before);
    run
}

#[tokio::test(start_paused = true)]
async fn after_a_reboot_there_is_nothing_to_do() {
    let desk = Desk::seed();
    desk.deployed().await;
    desk.cluster.reboot();
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let run = changes_nothing(&desk).await;
    let outcome = run.outcome.unwrap();
    assert!(matches!(outcome, RunOutcome::NothingToDo { release: Some(FIRST), .. }), "{outcome:?}");
    assert_eq!(outcome.exit(), Exit::Done);
    let changes: Vec<_> = desk.cluster.effects().into_iter().filter(|effect| effect.changes).collect();
    assert!(changes.is_empty(), "{changes:?}");
}

/// Another operator's deploy of the same is this one's, too.
#[tokio::test(start_paused = true)]
async fn what_another_operator_started_is_left_running() {
    let desk = Desk::seed();
    desk.deployed().await;
    let bob = sparkctl::plan::planner::Operator { who: "bob@tower".to_owned(), ..crate::desk::operator() };
    let before = running(&desk);
    let run = desk.run_as(Command::Deploy, &bob).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::NothingToDo { release: Some(FIRST), .. })));
    assert_eq!(running(&desk), before);
}

/// Containers of the right specification without a record, as of a deploy whose records were lost: they are proven where
/// they are, and recorded.
#[tokio::test(start_paused = true)]
async fn what_has_no_record_is_proven_and_recorded() {
    let desk = Desk::seed();
    desk.deployed().await;
    for node in ["spark1", "spark2"] {
        desk.cluster.machine(node, |m| m.releases.clear());
    }
    let run = changes_nothing(&desk).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { release: FIRST, .. })), "{:?}", run.outcome);
    assert_eq!(desk.recorded(FIRST).await, vec![Some(Outcome::Deployed); 2]);
    let run = changes_nothing(&desk).await;
    assert!(matches!(run.outcome, Some(RunOutcome::NothingToDo { .. })), "{:?}", run.outcome);
}

/// Made by hand from what the plan says, under sparkctl's names and labels.
#[tokio::test(start_paused = true)]
async fn what_a_person_started_by_hand_is_taken_on() {
    let probe = Desk::seed();
    let ranks: Vec<Rank> = probe.deployed().await.plan().await.ranks;
    // The same nodes with image and weights there, and nothing deployed.
    let desk = probe.copy();
    for node in ["spark1", "spark2"] {
        desk.cluster.machine(node, |m| {
            m.releases.clear();
            m.containers.clear();
        });
    }
    for rank in &ranks {
        let host = desk.cluster.host(&rank.node);
        let name = sparkctl::container::container_name(&desk.profile.name, rank.rank);
        host.create_container(&NewContainer {
            labels: sparkctl::container::labels(&desk.profile.name, FIRST, rank),
            name: name.clone(),
            image: rank.spec.image.kept_as(),
            spec: rank.spec.clone(),
        })
        .await
        .unwrap();
        host.start_container(&name).await.unwrap();
    }
    let run = changes_nothing(&desk).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { release: FIRST, .. })), "{:?}", run.outcome);
    let run = changes_nothing(&desk).await;
    assert!(matches!(run.outcome, Some(RunOutcome::NothingToDo { .. })), "{:?}", run.outcome);
}

/// What is not the same is not left running beside: the group is one.
#[tokio::test(start_paused = true)]
async fn one_rank_of_another_kind_is_no_group() {
    let desk = Desk::seed();
    desk.deployed().await;
    let other = desk.with(changed(&desk.profile));
    let before = running(&desk);
    other.deployed().await;
    assert!(running(&other).iter().all(|id| !before.contains(id)));
}
