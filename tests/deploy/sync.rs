//! `sync` on machines in memory: what it tells, and what it leaves alone.

use sparkctl::event::{Event, RunOutcome};
use sparkctl::host::fake::{Fault, Moment, SEED_MODEL};
use sparkctl::plan::planner::SyncWishes;
use sparkctl::report::terminal::outcome_line;

use crate::desk::{Command, Desk, Run};

const PLAIN: Command = Command::Sync(SyncWishes { verify: false, delete_extra: false });

async fn told(desk: &Desk, command: Command) -> String {
    let run = desk.run(command).await;
    desk.hold_to_account(&run);
    outcome_line("m", &run.outcome.unwrap())
}

#[tokio::test(start_paused = true)]
async fn the_second_sync_moves_nothing_and_says_so() {
    let desk = Desk::seed();
    assert_eq!(told(&desk, PLAIN).await, "m: 39 files, 119 GB, verified on 2 nodes; 119 GB moved");
    assert_eq!(told(&desk, PLAIN).await, "m: unchanged: 39 files, 119 GB, verified earlier on 2 nodes");
    let verify = Command::Sync(SyncWishes { verify: true, ..SyncWishes::default() });
    assert_eq!(
        told(&desk, verify).await,
        "m: unchanged: 39 files, 119 GB, verified on 2 nodes, 0 bytes moved"
    );
    assert!(!desk.cluster.locked());
    // A deploy finds all in place, and its record knows the content.
    desk.deployed().await;
    let weights =
        desk.cluster.effects().into_iter().filter(|effect| effect.name.starts_with("pull-weights: half"));
    assert_eq!(weights.count(), 2);
}

/// Whoever deploys without a sync has the content in the record as well, and other times are no other weights then.
#[tokio::test(start_paused = true)]
async fn a_release_knows_its_weights_by_content() {
    let desk = Desk::seed();
    desk.deployed().await;
    desk.cluster.machine("spark1", |m| {
        for file in &mut m.folders.get_mut(SEED_MODEL).unwrap().files {
            file.mtime += 9;
        }
    });
    let run = desk.run(Command::Deploy).await;
    assert!(matches!(run.outcome, Some(RunOutcome::NothingToDo { .. })), "{:?}", run.outcome);
    desk.cluster.machine("spark1", |m| {
        m.folders.get_mut(SEED_MODEL).unwrap().files[0].sha256 = Some("0".repeat(64));
    });
    let plan = desk.plan().await.plan;
    assert_eq!(plan.differences, ["the model's files changed since they were loaded"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_of_the_model_is_told_and_removed_by_wish() {
    let desk = Desk::seed();
    told(&desk, PLAIN).await;
    desk.cluster.machine("spark2", |m| {
        let folder = m.folders.get_mut(SEED_MODEL).unwrap();
        let mut file = folder.files[0].clone();
        file.path = "old.safetensors".to_owned();
        folder.files.push(file);
    });
    let has_it =
        || desk.cluster.machine("spark2", |m| m.folders[SEED_MODEL].file("old.safetensors").is_some());
    let said = told(&desk, PLAIN).await;
    assert!(
        said.ends_with(
            "\nspark2: not of the model: old.safetensors (left alone; `sync --delete-extra` removes them)"
        ),
        "{said}"
    );
    assert!(has_it());
    let delete = Command::Sync(SyncWishes { delete_extra: true, ..SyncWishes::default() });
    assert!(told(&desk, delete).await.ends_with("old.safetensors (removed)"));
    assert!(!has_it());
}

#[tokio::test(start_paused = true)]
async fn a_sync_ends_with_its_own_exit_codes() {
    let exit = |run: &Run| run.outcome.as_ref().unwrap().exit() as u8;
    let desk = Desk::seed();
    desk.run(PLAIN).await;
    let effects = desk.cluster.effects();
    let at = effects.iter().position(|effect| effect.name == "pull-weights: whole").unwrap() + 1;

    let desk = Desk::seed();
    desk.cluster.fault_at(at, Fault::Fail, Moment::Before);
    let run = desk.run(PLAIN).await;
    assert_eq!(exit(&run), 5, "{:?}", run.outcome);
    assert!(run.events.iter().any(|event| matches!(event, Event::Failed { .. })));
    // The half that came is not moved again.
    assert_eq!(told(&desk, PLAIN).await, "m: 39 files, 119 GB, verified on 2 nodes; 63 GB moved");

    let desk = Desk::seed();
    desk.cluster.machine("spark1", |m| drop(m.folders.remove(SEED_MODEL)));
    assert_eq!(exit(&desk.run(PLAIN).await), 3);
    desk.cluster.set_reachable("spark2", false);
    assert_eq!(exit(&desk.run(PLAIN).await), 7);
}
