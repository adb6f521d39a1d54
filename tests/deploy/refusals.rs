//! What refuses a deploy or a rollback: each says where and what to do, and nothing is changed.

use std::net::Ipv4Addr;

use sparkctl::check::{Finding, Severity};
use sparkctl::cluster::facts::{Disk, Listener};
use sparkctl::error::Exit;
use sparkctl::event::RunOutcome;
use sparkctl::host::fake::{Behaviour, FakeContainer, SEED_IMAGE, SEED_MODEL, content};
use sparkctl::operation::Target;
use sparkctl::profile::NodeName;
use sparkctl::release::ReleaseNumber;

use crate::desk::{Command, Desk, changed};

/// A case: the name of the finding, its node, words of the message, words of the remedy.
type Wanted = (&'static str, Option<&'static str>, &'static str, &'static str);

/// `command` is refused as `wanted` says.
async fn check(desk: &Desk, command: Command, wanted: Wanted) {
    let (id, node, message, remedy) = wanted;
    desk.cluster.forget_effects();
    let run = desk.run(command).await;
    desk.hold_to_account(&run);
    let Some(RunOutcome::Refused { findings }) = &run.outcome else {
        panic!("{id}: not refused but {:?}", run.outcome);
    };
    assert_eq!(run.outcome.as_ref().unwrap().exit(), Exit::Refused);
    let errors = || findings.iter().filter(|finding| finding.severity == Severity::Error);
    let is = |finding: &&Finding| {
        finding.id == id
            && finding.node.as_ref().map(NodeName::as_str) == node
            && finding.message.contains(message)
            && finding.hint.as_ref().is_some_and(|hint| hint.contains(remedy))
    };
    assert_eq!(errors().filter(is).count(), 1, "{id}: {findings:#?}");
    assert_eq!(errors().count(), 1, "{id}: one thing is wrong, and this is told: {findings:#?}");
}

fn listener(port: u16, process: Option<&str>) -> Listener {
    Listener {
        port,
        address: "0.0.0.0".to_owned(),
        process: process.map(str::to_owned),
        ..Listener::default()
    }
}

/// How a deploy is spoilt, and what is told of it.
type Case = (fn(&mut Desk), Wanted);

/// Each case on a cluster of its own.
async fn check_all(cases: &[Case]) {
    for (spoil, wanted) in cases {
        let mut desk = Desk::seed();
        spoil(&mut desk);
        check(&desk, Command::Deploy, *wanted).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_deploy_for_its_nodes() {
    let cases: &[Case] = &[
        (
            |desk| desk.profile.cluster.nodes[1].fabric = Ipv4Addr::new(192, 168, 200, 99),
            ("fabric-address", Some("spark2"), "192.168.200.13 on enp1s0f0np0", "correct `fabric`"),
        ),
        (
            // Its office address: it has it, and the head's fabric does not reach it.
            |desk| desk.profile.cluster.nodes[1].fabric = Ipv4Addr::new(10, 1, 230, 181),
            (
                "fabric-subnet",
                Some("spark2"),
                "10.1.230.181 is not in 192.168.200.0/24, the network of spark1's",
                "it has 192.168.200.13 on enp1s0f0np0",
            ),
        ),
        (
            |desk| desk.profile.cluster.nodes[1].fabric = Ipv4Addr::new(192, 168, 201, 13),
            ("fabric-subnet", Some("spark2"), "192.168.201.13 is not in", "it has 192.168.200.13 on"),
        ),
        (
            |desk| desk.cluster.machine("spark2", |m| m.interfaces[2].up = false),
            ("fabric-down", Some("spark2"), "enp1s0f0np0 (192.168.200.13)", "check the cable"),
        ),
        (
            |desk| {
                desk.cluster.machine("spark1", |m| {
                    m.containers.insert("old".to_owned(), FakeContainer::foreign("old", "sglang:spark", true))
                });
            },
            (
                "gpu-taken",
                Some("spark1"),
                "`old` (image sglang:spark, restart policy always)",
                "docker update --restart no old && docker stop old",
            ),
        ),
        (
            |desk| desk.cluster.machine("spark1", |m| m.listeners.push(listener(30000, Some("python3")))),
            (
                "port-taken",
                Some("spark1"),
                "port 30000 (serve.port) is taken by process `python3`",
                "`serve.port`",
            ),
        ),
        (
            |desk| desk.cluster.machine("spark1", |m| m.listeners.push(listener(6379, None))),
            (
                "port-taken",
                Some("spark1"),
                "port 6379 (Ray) is taken by a process of another user",
                "Ray needs",
            ),
        ),
        (
            |desk| {
                desk.cluster.machine("spark1", |m| {
                    let mut web = FakeContainer::foreign("web", "nginx:1", false);
                    web.container.published = vec![30000];
                    m.containers.insert("web".to_owned(), web);
                    m.listeners.push(listener(30000, None));
                });
            },
            ("port-taken", Some("spark1"), "is taken by container `web`", "choose another"),
        ),
        (
            |desk| desk.cluster.machine("spark2", |m| m.gpus.clear()),
            ("gpu-absent", Some("spark2"), "reports no GPU", "nvidia-smi"),
        ),
        (
            |desk| desk.profile.engine.tensor_parallel = 4,
            ("gpu-count", None, "spread over 4 GPUs, but the nodes have 2", "lower `engine.tensor_parallel`"),
        ),
        (
            |desk| desk.cluster.machine("spark2", |m| drop(m.tools.remove("rsync"))),
            ("tool-absent", Some("spark2"), "`rsync` is not installed", "apt install rsync"),
        ),
        (
            |desk| desk.cluster.machine("spark1", |m| drop(m.tools.remove("python3"))),
            ("tool-absent", Some("spark1"), "`python3` is not installed", "apt install python3"),
        ),
        (
            |desk| {
                let one = desk.cluster.machine("spark1", |m| m.system.clone());
                desk.cluster.machine("spark2", |m| m.system = one);
            },
            ("same-machine", Some("spark2"), "the same machine as spark1", "`host` of its own"),
        ),
    ];
    check_all(cases).await;
}

#[tokio::test(start_paused = true)]
async fn of_a_deploy_for_its_image_and_model() {
    let cases: &[Case] = &[
        (
            |desk| desk.cluster.machine("spark1", |m| m.images.clear()),
            ("image-absent", None, SEED_IMAGE, "on spark1: docker pull"),
        ),
        (
            |desk| {
                desk.cluster.machine("spark2", |m| "x86_64".clone_into(&mut m.system.architecture));
                desk.cluster.machine("spark1", |m| m.images[0].architecture = "arm64".to_owned());
            },
            ("architecture", Some("spark2"), "is x86_64, spark1 is aarch64", "nodes of one kind"),
        ),
        (
            |desk| desk.cluster.machine("spark1", |m| m.folders.clear()),
            ("model-absent", Some("spark1"), SEED_MODEL, "correct `model.path`"),
        ),
        (
            |desk| {
                desk.cluster.machine("spark1", |m| {
                    m.folders.get_mut(SEED_MODEL).unwrap().files.retain(|file| file.path != "config.json");
                });
            },
            ("model-absent", Some("spark1"), "has no config.json", "correct `model.path`"),
        ),
        (
            |desk| {
                desk.cluster.machine("spark1", |m| {
                    m.folders.get_mut(SEED_MODEL).unwrap().dangling.push("tokenizer.json".to_owned());
                });
            },
            ("model-absent", Some("spark1"), "lead nowhere: tokenizer.json", "fetch the model again"),
        ),
        (
            |desk| desk.cluster.machine("spark2", |m| m.model_disk = Disk { total: 200, free: 100 }),
            ("disk-model", Some("spark2"), "119 GB are to be copied", "free some space"),
        ),
        (
            |desk| desk.cluster.machine("spark2", |m| m.lost_peers = vec![Ipv4Addr::new(192, 168, 200, 12)]),
            (
                "fabric-unreachable",
                Some("spark2"),
                "does not reach spark1 (192.168.200.12), although it is reached from there",
                "check cable",
            ),
        ),
        (
            // 18.4 GB, twice: the archive and the unpacked layers.
            |desk| {
                desk.cluster.machine("spark2", |m| {
                    m.docker.disk = Some(Disk { total: 50_000_000_000, free: 36_000_000_000 });
                });
            },
            ("disk-image", Some("spark2"), "the image needs 37 GB at `/var/lib/docker`", "docker system df"),
        ),
    ];
    check_all(cases).await;
}

/// Two nodes of one kind, and an image of another: told of each node.
#[tokio::test(start_paused = true)]
async fn of_an_image_for_another_architecture() {
    let desk = Desk::seed();
    desk.cluster.machine("spark1", |m| "amd64".clone_into(&mut m.images[0].architecture));
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    let Some(RunOutcome::Refused { findings }) = run.outcome else { panic!("{:?}", run.outcome) };
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    let told: Vec<_> = errors.map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "spark1: the image is for amd64, the node is aarch64 (image-architecture)",
            "spark2: the image is for amd64, the node is aarch64 (image-architecture)"
        ]
    );
}

/// Everything that is wrong is told at once.
#[tokio::test(start_paused = true)]
async fn several_at_once() {
    let desk = Desk::seed();
    desk.cluster.machine("spark1", |m| m.images.clear());
    desk.cluster.machine("spark2", |m| m.interfaces[2].up = false);
    let run = desk.run(Command::Deploy).await;
    let Some(RunOutcome::Refused { findings }) = run.outcome else { panic!("{:?}", run.outcome) };
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    let ids: Vec<_> = errors.map(|finding| finding.id).collect();
    assert_eq!(ids, ["fabric-down", "image-absent"]);
}

#[tokio::test(start_paused = true)]
async fn of_a_deploy_while_another_deployment_runs() {
    let desk = Desk::seed();
    desk.deployed().await;
    let mut other = desk.with(desk.profile.clone());
    other.profile.name = "small".parse().unwrap();
    other.profile.serve.port = 30001.try_into().unwrap();
    desk.cluster.forget_effects();
    let run = other.run(Command::Deploy).await;
    let Some(RunOutcome::Refused { findings }) = &run.outcome else { panic!("{:?}", run.outcome) };
    let taken: Vec<_> = findings.iter().filter(|finding| finding.id == "gpu-taken").collect();
    assert_eq!(taken.len(), 2, "{findings:#?}");
    for (finding, node) in taken.iter().zip(["spark1", "spark2"]) {
        assert_eq!(finding.node.as_ref().unwrap().as_str(), node);
        assert_eq!(
            finding.hint.as_deref(),
            Some("sparkctl stop qwen35-122b (or its profile's file, where it is not known here)")
        );
    }
    // The ports that the other holds are no second fault, and not to be freed by hand.
    assert!(!findings.iter().any(|finding| finding.id == "port-taken"), "{findings:#?}");
    assert!(!desk.cluster.effects().iter().any(|effect| effect.changes));
    assert!(desk.serves(ReleaseNumber(1)), "what served was touched");
}

#[tokio::test(start_paused = true)]
async fn of_a_rollback() {
    type Case = (fn(&mut Desk), Target, Wanted);
    let number = |number| Target::Number(ReleaseNumber(number));
    let cases: &[Case] = &[
        (
            |desk| {
                for node in ["spark1", "spark2"] {
                    desk.cluster.machine(node, |m| m.images.retain(|i| i.content == content("newer")));
                }
            },
            Target::Before,
            ("image-absent", None, "the image of release 1", "deploy anew"),
        ),
        (
            |desk| {
                desk.cluster.machine("spark1", |m| {
                    let file = &mut m.folders.get_mut(SEED_MODEL).unwrap().files[0];
                    (file.mtime, file.sha256) = (file.mtime + 1, None);
                });
            },
            Target::Before,
            (
                "weights-changed",
                Some("spark1"),
                "is not what release 1 was served from",
                "put the files back",
            ),
        ),
        (
            |_| {},
            number(9),
            ("release-absent", None, "no release 9 on any node", "sparkctl releases qwen35-122b"),
        ),
        (
            |_| {},
            number(3),
            ("release-failed", None, "release 3 never served", "sparkctl releases qwen35-122b"),
        ),
    ];
    let desk = Desk::seed();
    desk.deployed().await;
    // Release 2 is of another image; release 3 fails.
    desk.cluster.machine("spark1", |m| m.put_image(&content("newer"), SEED_IMAGE, "arm64", 19_000_000_000));
    desk.deployed().await;
    desk.cluster.behave(3, Behaviour::CrashAtStart(1));
    desk.with(changed(&desk.profile)).run(Command::Deploy).await;
    for (spoil, target, wanted) in cases {
        let mut desk = desk.copy();
        spoil(&mut desk);
        check(&desk, Command::Rollback(*target), *wanted).await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_rollback_of_the_only_release() {
    let desk = Desk::seed();
    desk.deployed().await;
    let wanted = ("release-absent", None, "no release before the one that runs", "sparkctl releases");
    check(&desk, Command::Rollback(Target::Before), wanted).await;
}
