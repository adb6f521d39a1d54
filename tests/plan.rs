//! Plans for the cluster that the project began with: what people and programs read of them, and
//! that executing one leaves nothing to do.

#![expect(clippy::unwrap_used, reason = "what a test takes for granted may panic")]

mod desk;

use desk::{Command, Desk, changed, lint, operator, seed_profile};
use serde_json::{Value, json};
use sparkctl::check::Severity;
use sparkctl::cluster::facts::{Disk, ModelFolder};
use sparkctl::event::RunOutcome;
use sparkctl::fabric::Links;
use sparkctl::host::fake::SEED_MODEL;
use sparkctl::operation::{self, Target};
use sparkctl::plan::planner::{self, Planned};
use sparkctl::plan::{Plan, render};
use sparkctl::profile::{EngineKind, Launch};
use sparkctl::release::Release;

/// The plan as JSON, with its longest parts by name only.
fn brief(plan: &Plan) -> Value {
    fn shorten(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match (name.as_str(), &mut *value) {
                        ("files", Value::Array(files)) => *value = json!(format!("{} files", files.len())),
                        // Each rank stands in its own start.
                        ("ranks", Value::Array(ranks)) => *value = json!(format!("{} ranks", ranks.len())),
                        ("sparkctl", _) => *value = json!("VERSION"),
                        ("profile", _) => *value = json!("the effective profile"),
                        _ => shorten(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(shorten),
            Value::String(text) if text.contains('\n') => "(script)".clone_into(text),
            _ => {}
        }
    }
    let mut json = serde_json::to_value(plan).unwrap();
    shorten(&mut json);
    json
}

fn show(name: &str, plan: &Plan) {
    lint(plan);
    insta::assert_snapshot!(format!("{name}-text"), render::text(plan, false));
    insta::assert_json_snapshot!(format!("{name}-json"), brief(plan));
}

#[tokio::test(start_paused = true)]
async fn first_deploy() {
    let Planned { plan, warnings, .. } = Desk::seed().plan().await;
    show("first-deploy", &plan);
    insta::assert_snapshot!("first-deploy-verbose", render::text(&plan, true));
    let told: Vec<_> = warnings.iter().filter(|finding| finding.severity > Severity::Note).collect();
    assert!(told.is_empty(), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_to_do() {
    let desk = Desk::seed();
    let mut plan = desk.deployed().await.plan().await.plan;
    assert!(plan.is_empty());
    plan.last_start_seconds = Some(391.0);
    show("nothing-to-do", &plan);
}

/// It would have nothing to start, and so never differ from what runs.
#[tokio::test(start_paused = true)]
async fn a_record_without_ranks_is_no_record() {
    let desk = Desk::seed();
    let facts = operation::look(&desk.profile, &desk.deployed().await.hosts()).await.unwrap();
    let mut record = serde_json::to_value(&facts[0].releases[0]).unwrap();
    assert!(serde_json::from_value::<Release>(record.clone()).is_ok());
    record["ranks"] = json!([]);
    let why = serde_json::from_value::<Release>(record).unwrap_err().to_string();
    assert!(why.contains("the record names no rank"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_longer_context() {
    let desk = Desk::seed();
    let desk = desk.deployed().await.with(changed(&desk.profile));
    let mut plan = desk.plan().await.plan;
    let took = plan.last_start_seconds.take().unwrap();
    assert!((1.0..2.5).contains(&took), "the fake engine starts in a second, and {took} was recorded");
    plan.last_start_seconds = Some(391.0);
    show("longer-context", &plan);
}

/// The same group by the engine's own launch, and by another engine: what is started, and what differs.
#[tokio::test(start_paused = true)]
async fn another_launch() {
    let desk = Desk::seed();
    let mut profile = desk.profile.clone();
    profile.engine.launch = Some(Launch::Native);
    let native = desk.with(profile.clone());
    let plan = native.plan().await.plan;
    lint(&plan);
    insta::assert_snapshot!("native-verbose", render::text(&plan, true));
    (profile.engine.kind, profile.engine.launch) = (EngineKind::Sglang, None);
    let sglang = desk.with(profile);
    insta::assert_snapshot!("sglang-verbose", render::text(&sglang.plan().await.plan, true));

    // From one to the other and back: never two engines at once, and what is told is so.
    desk.deployed().await;
    let mut plan = native.plan().await.plan;
    plan.last_start_seconds = Some(391.0);
    insta::assert_snapshot!("ray-to-native", render::text(&plan, false));
    native.deployed().await;
    assert!(native.plan().await.plan.is_empty());
    sglang.deployed().await;
    assert!(sglang.plan().await.plan.is_empty());
    let run = sglang.run(Command::Rollback(Target::Number("1".parse().unwrap()))).await;
    sglang.hold_to_account(&run);
    assert!(desk.plan().await.plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn stop() {
    let desk = Desk::seed();
    desk.deployed().await;
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    show("stop", &planner::stop(&desk.profile.name, &facts, &[]));
}

#[tokio::test(start_paused = true)]
async fn rollback() {
    let desk = Desk::seed();
    desk.deployed().await.with(changed(&desk.profile)).deployed().await;
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    let before = planner::release_before(&desk.profile.name, &facts).unwrap();
    let mut plan = planner::restore(&before, &facts, planner::OtherWeights::Refuse).unwrap().plan;
    plan.last_start_seconds = Some(391.0);
    show("rollback", &plan);
}

/// What a cut transfer left takes the space that its rest does not need any more.
#[tokio::test(start_paused = true)]
async fn room_is_counted_with_what_a_cut_transfer_left() {
    let desk = Desk::seed();
    let left = |partial| ModelFolder { partial, ..ModelFolder::default() };
    desk.cluster.machine("spark2", |m| {
        m.model_disk = Disk { total: 200_000_000_000, free: 30_000_000_000 };
        m.folders.insert(SEED_MODEL.to_owned(), left(100_000_000_000));
    });
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    planner::deploy(&desk.profile, &desk.delivery, &facts, &Links::default(), &operator()).unwrap();
    desk.cluster.machine("spark2", |m| drop(m.folders.insert(SEED_MODEL.to_owned(), left(80_000_000_000))));
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    let refused =
        planner::deploy(&desk.profile, &desk.delivery, &facts, &Links::default(), &operator()).unwrap_err();
    let errors = refused.0.iter().filter(|finding| finding.severity == Severity::Error);
    assert_eq!(errors.map(|finding| finding.id).collect::<Vec<_>>(), ["disk-model"]);
}

/// A rollback of what was just deployed, or a repair after a rank was lost, asks for no bytes.
#[tokio::test(start_paused = true)]
async fn a_lost_rank_is_replaced_with_its_group() {
    let desk = Desk::seed();
    desk.deployed().await;
    desk.cluster.machine("spark2", |m| m.kill("sparkctl-qwen35-122b-1"));
    let mut plan = desk.plan().await.plan;
    plan.last_start_seconds = Some(391.0);
    show("lost-rank", &plan);
}

#[tokio::test(start_paused = true)]
async fn after_each_command_nothing_is_left_to_do() {
    let desk = Desk::seed();
    desk.deployed().await;
    assert!(desk.plan().await.plan.is_empty());

    let longer = desk.with(changed(&desk.profile));
    longer.deployed().await;
    assert!(longer.plan().await.plan.is_empty());
    assert!(!desk.plan().await.plan.is_empty(), "the old profile differs from what runs");

    let run = desk.run(Command::Rollback(Target::Before)).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { release, .. }) if release.0 == 1));
    desk.hold_to_account(&run);
    assert!(desk.plan().await.plan.is_empty());
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    let first = planner::release_numbered("1".parse().unwrap(), &facts).unwrap();
    assert!(planner::restore(&first, &facts, planner::OtherWeights::Refuse).unwrap().plan.is_empty());

    let run = desk.run(Command::Stop).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Stopped { release: Some(release) }) if release.0 == 1));
    desk.hold_to_account(&run);
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    assert!(planner::stop(&desk.profile.name, &facts, &[]).is_empty());
}

/// Planning is a function: the same facts, the same plan.
#[tokio::test(start_paused = true)]
async fn the_same_facts_give_the_same_plan() {
    let desk = Desk::seed();
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    let plan = || {
        planner::deploy(&seed_profile(), &desk.delivery, &facts, &Links::default(), &operator()).unwrap().plan
    };
    assert_eq!(plan(), plan());
}
