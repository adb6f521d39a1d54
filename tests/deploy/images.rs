//! The image on its way: alone, to several nodes at once, in part; and beside the weights.

use std::sync::Arc;

use sparkctl::cluster::facts::{ImageStore, Layer};
use sparkctl::event::{Event, RunOutcome};
use sparkctl::host::fake::{Fault, Moment, SEED_MODEL, content, seed_content};
use sparkctl::host::{FakeCluster, Host};
use sparkctl::plan::{Action, StageKind};
use sparkctl::transfer::{ImageJob, Taker, copy_image};

use crate::desk::{self, Command, Desk};

/// Four nodes; the image is on the first, as two layers.
fn four() -> Desk {
    let mut desk = Desk::seed();
    for number in 3..=4 {
        let mut node = desk.profile.cluster.nodes[1].clone();
        node.name = format!("spark{number}").parse().unwrap();
        node.fabric = format!("192.168.200.{}", 11 + number).parse().unwrap();
        desk.profile.cluster.nodes.push(node);
    }
    let facts = desk::recorded_sparks(&desk.profile);
    desk.cluster = FakeCluster::recorded(&facts, SEED_MODEL);
    let layers = [layer("base", 18_000_000_000), layer("top", 400_000_000)];
    let reference = desk.profile.image.reference.with_tag();
    for node in ["spark1", "spark2", "spark3", "spark4"] {
        desk.cluster.machine(node, |m| {
            m.images.clear();
            m.docker.store = ImageStore::Classic;
            if node == "spark1" {
                m.put_image(&seed_content(), &reference, "arm64", 18_400_000_000);
                m.images[0].layers = layers.to_vec();
            }
        });
    }
    desk
}

fn layer(word: &str, size: u64) -> Layer {
    Layer { diff_id: format!("sha256:{}", content(word).0), size }
}

/// Another image of a node, upon the same base.
fn put_base(desk: &Desk, node: &str) {
    desk.cluster.machine(node, |m| {
        m.put_image(&content("other"), "other:1", "arm64", 18_100_000_000);
        m.images[0].layers = vec![layer("base", 18_000_000_000), layer("another", 100_000_000)];
    });
}

fn has_it(desk: &Desk, node: &str) -> bool {
    let kept = seed_content().kept_as();
    desk.cluster.machine(node, |m| m.images.iter().any(|image| image.references.contains(&kept)))
}

/// How often an image was read to be sent.
fn saves(desk: &Desk) -> usize {
    desk.cluster.effects().iter().filter(|effect| effect.name == "send-image").count()
}

fn pushed(run: &desk::Run) -> u64 {
    let Some(RunOutcome::Pushed { bytes, .. }) = run.outcome else { panic!("{:?}", run.outcome) };
    bytes
}

#[tokio::test(start_paused = true)]
async fn the_image_is_read_once_for_all_nodes_that_lack_the_same_of_it() {
    let desk = four();
    let run = desk.run(Command::Push).await;
    desk.hold_to_account(&run);
    assert_eq!(pushed(&run), 3 * 18_400_000_000);
    assert!(["spark1", "spark2", "spark3", "spark4"].iter().all(|node| has_it(&desk, node)));
    assert_eq!(saves(&desk), 1);

    desk.cluster.forget_effects();
    let again = desk.run(Command::Push).await;
    desk.hold_to_account(&again);
    assert_eq!((pushed(&again), saves(&desk)), (0, 0));
    assert!(desk.cluster.effects().iter().all(|effect| !effect.changes), "{:?}", desk.cluster.effects());
}

#[tokio::test(start_paused = true)]
async fn layers_that_a_classic_store_has_stay_at_home() {
    let desk = four();
    for node in ["spark2", "spark3", "spark4"] {
        put_base(&desk, node);
    }
    // It could not pass the image on afterwards.
    desk.cluster.machine("spark4", |m| m.docker.store = ImageStore::Containerd);
    let run = desk.run(Command::Push).await;
    desk.hold_to_account(&run);
    assert_eq!(pushed(&run), 2 * 400_000_000 + 18_400_000_000);
    assert_eq!(saves(&desk), 2, "one for each part of it");
    let plan = run.events.iter().find_map(|event| match event {
        Event::Planned { plan } => Some(plan),
        _ => None,
    });
    let shown = sparkctl::plan::render::text(plan.unwrap(), false);
    assert!(shown.contains("spark1 → spark2, spark3   1 of 2 layers, 400 MB"), "{shown}");
    assert!(shown.contains("spark1 → spark4   2 layers, 18 GB"), "{shown}");
    let told = run.events.iter().find_map(|event| match event {
        Event::StageDone { stage: StageKind::Image, detail, .. } => detail.clone(),
        _ => None,
    });
    let told = told.unwrap();
    assert!(told.contains("400 MB to spark2") && told.contains("without 1 layer that was there"), "{told}");
    assert!(told.contains("18 GB to spark4") && told.contains("in full"), "{told}");
}

/// What the facts told was there is gone when the part of it arrives.
#[tokio::test(start_paused = true)]
async fn where_a_part_is_not_enough_the_whole_follows_and_that_is_told() {
    let desk = four();
    put_base(&desk, "spark2");
    let host = |name: &str| Arc::new(desk.cluster.host(&name.parse().unwrap())) as Arc<dyn Host>;
    let (from, lacks, has) = (host("spark1"), host("spark3"), host("spark2"));
    from.tag_image(&desk.profile.image.reference.with_tag(), &seed_content().kept_as()).await.unwrap();
    let job = ImageJob {
        content: seed_content(),
        from_address: "192.168.200.12".parse().unwrap(),
        leave_out: vec![format!("blobs/sha256/{}", content("base").0)],
    };
    let takers = [(&has, "192.168.200.13"), (&lacks, "192.168.200.14")];
    let takers =
        takers.map(|(host, address)| Taker { host: host.as_ref(), address: address.parse().unwrap() });
    let results = copy_image(from.as_ref(), &takers, &job, &mut |_, _| {}).await;
    let [Ok(part), Ok(whole)] = &results[..] else { panic!("{results:?}") };
    assert_eq!((part.bytes, part.left_out, &part.not_enough), (400_000_000, 1, &None));
    assert_eq!((whole.bytes, whole.left_out), (18_400_000_000, 0));
    assert!(whole.not_enough.as_ref().unwrap().contains("no such file or directory"), "{whole:?}");
    assert!(has_it(&desk, "spark2") && has_it(&desk, "spark3"));
}

#[tokio::test(start_paused = true)]
async fn one_node_that_fails_keeps_no_other_from_its_image() {
    let desk = four();
    let probe = desk.copy();
    probe.run(Command::Push).await;
    let streams = probe.cluster.effects();
    let second = streams.iter().enumerate().filter(|(_, e)| e.name.ends_with(": stream")).nth(1).unwrap().0;
    desk.cluster.fault_at(second + 1, Fault::Fail, Moment::Before);
    let run = desk.run(Command::Push).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::NotPushed { .. })), "{:?}", run.outcome);
    assert_eq!(run.outcome.as_ref().unwrap().exit() as u8, 5);
    let again = desk.run(Command::Push).await;
    assert_eq!(pushed(&again) % 18_400_000_000, 0);
    assert!(pushed(&again) < 3 * 18_400_000_000, "what the first brought was brought again");
    assert!(["spark2", "spark3", "spark4"].iter().all(|node| has_it(&desk, node)));
}

/// Whatever is cut, an image that has sparkctl's name is whole, and the next push finishes.
#[tokio::test(start_paused = true)]
async fn a_fault_at_every_effect_of_a_push() {
    let desk = four();
    put_base(&desk, "spark2");
    for fault in [Fault::Fail, Fault::Disconnect, Fault::Die] {
        for moment in [Moment::Before, Moment::After] {
            for number in 1.. {
                let desk = desk.copy();
                desk.cluster.fault_at(number, fault, moment);
                let run = desk.run(Command::Push).await;
                if desk.cluster.fault_ahead() {
                    assert!(number > 20, "only {number} effects");
                    break;
                }
                let at = format!("{fault:?} {moment:?} {:?}", desk.cluster.effects().get(number - 1));
                desk.hold_to_account(&run);
                assert!(!desk.cluster.locked(), "{at}: a lock stays behind");
                desk.cluster.heal();
                let again = desk.run(Command::Push).await;
                assert!(
                    matches!(again.outcome, Some(RunOutcome::Pushed { .. })),
                    "{at}: {:?}",
                    again.outcome
                );
                assert!(["spark2", "spark3", "spark4"].iter().all(|node| has_it(&desk, node)), "{at}");
            }
        }
    }
}

/// The stages that only move bytes go side by side.
#[tokio::test(start_paused = true)]
async fn weights_and_image_move_at_the_same_time() {
    let desk = Desk::seed();
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    let at = |wanted: &dyn Fn(&Event) -> bool| run.events.iter().position(wanted).unwrap();
    let began =
        |stage| at(&move |event: &Event| matches!(event, Event::StageStarted { stage: s } if *s == stage));
    let done =
        |stage| at(&move |event: &Event| matches!(event, Event::StageDone { stage: s, .. } if *s == stage));
    let last = began(StageKind::Weights).max(began(StageKind::Image));
    assert!(last < done(StageKind::Weights) && last < done(StageKind::Image));
    let next = began(StageKind::Begin);
    assert!(done(StageKind::Weights) < next && done(StageKind::Image) < next);
}

/// Neither is left half done where the other fails.
#[tokio::test(start_paused = true)]
async fn weights_that_fail_leave_no_half_image() {
    let desk = Desk::seed();
    let probe = desk.copy();
    probe.run(Command::Deploy).await;
    let effects = probe.cluster.effects();
    let number = effects.iter().position(|effect| effect.name == "pull-weights: whole").unwrap() + 1;
    desk.cluster.fault_at(number, Fault::Fail, Moment::Before);
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    let failure = run.events.iter().find_map(|event| match event {
        Event::Failed { failure } => Some(failure),
        _ => None,
    });
    assert_eq!(failure.unwrap().stage, StageKind::Weights);
    desk.cluster.heal();
    let plan = desk.plan().await.plan;
    let copies = |action: &Action| matches!(action, Action::CopyImage { .. });
    let again = plan.stages.iter().flat_map(|stage| &stage.steps).any(|step| copies(&step.action));
    assert_eq!(again, !has_it(&desk, "spark2"), "it is there with its name, or it comes again");
    desk.deployed().await;
}
