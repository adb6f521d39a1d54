//! Whatever state a cluster is in, a deploy makes it serve, and then there is nothing left to do.

use proptest::prelude::*;
use sparkctl::cluster::facts::ImageStore;
use sparkctl::event::RunOutcome;
use sparkctl::host::fake::{Behaviour, Fault, Moment, SEED_IMAGE, SEED_MODEL, seed_content};
use sparkctl::operation::Target;

use crate::desk::{Command, Desk, changed, lint};

/// What happened to the cluster before.
#[derive(Debug, Clone)]
struct Past {
    /// Which of the worker's files are there already: one in so many; and of those, one in so many is another.
    weights: Option<(usize, usize)>,
    /// The image is on the head, on the worker, or on both.
    image: (bool, bool),
    containerd: bool,
    /// Whether the nodes have sparkctl's own name for the image.
    kept: (bool, bool),
    history: Vec<Deed>,
}

#[derive(Debug, Clone, Copy)]
enum Deed {
    Deploy {
        changed: bool,
    },
    /// A deploy whose operator is killed at this effect.
    Killed {
        changed: bool,
        at: usize,
    },
    /// A deploy of an engine that does not start.
    Failing,
    Rollback,
    Stop,
    /// A rank ends, and stays so.
    RankEnds(u8),
    /// A rank's container is removed by hand.
    RankGone(u8),
    Reboot,
}

fn deeds() -> impl Strategy<Value = Deed> {
    prop_oneof![
        any::<bool>().prop_map(|changed| Deed::Deploy { changed }),
        (any::<bool>(), 1_usize..90).prop_map(|(changed, at)| Deed::Killed { changed, at }),
        Just(Deed::Failing),
        Just(Deed::Rollback),
        Just(Deed::Stop),
        (0_u8..2).prop_map(Deed::RankEnds),
        (0_u8..2).prop_map(Deed::RankGone),
        Just(Deed::Reboot),
    ]
}

fn pasts() -> impl Strategy<Value = Past> {
    (
        proptest::option::of((1_usize..4, 1_usize..9)),
        prop_oneof![Just((true, false)), Just((false, true)), Just((true, true))],
        any::<bool>(),
        any::<(bool, bool)>(),
        proptest::collection::vec(deeds(), 0..5),
    )
        .prop_map(|(weights, image, containerd, kept, history)| Past {
            weights,
            image,
            containerd,
            kept,
            history,
        })
}

async fn live_through(past: &Past) -> Desk {
    let desk = Desk::seed();
    let folder = desk.cluster.machine("spark1", |m| m.folders[SEED_MODEL].clone());
    desk.cluster.machine("spark2", |m| {
        if past.containerd {
            m.docker.store = ImageStore::Containerd;
        }
        if let Some((some, other)) = past.weights {
            let mut partly = folder.clone();
            let mut at = 0;
            partly.files.retain(|_| {
                at += 1;
                at % some == 0
            });
            for file in partly.files.iter_mut().step_by(other) {
                file.mtime -= 60;
            }
            m.folders.insert(SEED_MODEL.to_owned(), partly);
        }
    });
    for (node, has, kept) in [("spark1", past.image.0, past.kept.0), ("spark2", past.image.1, past.kept.1)] {
        desk.cluster.machine(node, |m| {
            m.images.clear();
            if has {
                m.put_image(&seed_content(), SEED_IMAGE, "arm64", 18_400_000_000);
            }
            if has && kept {
                m.put_image(&seed_content(), &seed_content().kept_as(), "arm64", 18_400_000_000);
            }
        });
    }
    for deed in &past.history {
        let other = desk.with(changed(&desk.profile));
        let of = |is_changed: bool| if is_changed { &other } else { &desk };
        let rank = |rank: u8| (format!("spark{}", rank + 1), format!("sparkctl-qwen35-122b-{rank}"));
        match *deed {
            Deed::Deploy { changed } => {
                let run = of(changed).run(Command::Deploy).await;
                of(changed).hold_to_account(&run);
            }
            Deed::Killed { changed, at } => {
                desk.cluster.fault_at(at, Fault::Die, Moment::After);
                let run = of(changed).run(Command::Deploy).await;
                desk.cluster.heal();
                of(changed).hold_to_account(&run);
            }
            Deed::Failing => {
                for release in 1..20 {
                    desk.cluster.behave(release, Behaviour::CrashAtStart(1));
                }
                let run = other.run(Command::Deploy).await;
                for release in 1..20 {
                    desk.cluster.behave(release, Behaviour::Healthy);
                }
                other.hold_to_account(&run);
            }
            Deed::Rollback => {
                desk.cluster.forget_effects();
                let run = desk.run(Command::Rollback(Target::Before)).await;
                desk.hold_to_account(&run);
            }
            Deed::Stop => {
                let run = desk.run(Command::Stop).await;
                desk.hold_to_account(&run);
            }
            Deed::RankEnds(number) => {
                let (node, name) = rank(number);
                desk.cluster.machine(&node, |m| m.kill(&name));
            }
            Deed::RankGone(number) => {
                let (node, name) = rank(number);
                desk.cluster.machine(&node, |m| drop(m.containers.remove(&name)));
            }
            Deed::Reboot => {
                desk.cluster.reboot();
                tokio::time::sleep(std::time::Duration::from_secs(5)).await;
            }
        }
    }
    desk
}

/// Lives through the past, deploys, stops; each leaves nothing to do.
async fn check(past: &Past) {
    let desk = live_through(past).await;
    let plan = desk.plan().await.plan;
    lint(&plan);
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    match &run.outcome {
        Some(RunOutcome::Deployed { release, .. }) => assert_eq!(Some(*release), plan.release),
        Some(RunOutcome::NothingToDo { .. }) => assert!(plan.is_empty()),
        outcome => panic!("{outcome:?}"),
    }
    let again = desk.plan().await.plan;
    assert!(again.is_empty(), "there is still something to do: {:#?}", again.stages);
    let run = desk.run(Command::Stop).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Stopped { .. })), "{:?}", run.outcome);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_deploy_converges_from_any_state(past in pasts()) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(check(&past));
    }
}
