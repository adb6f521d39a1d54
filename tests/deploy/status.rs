//! What `status` says of a cluster, and with which exit status.

use std::time::Duration;

use sparkctl::error::Exit;
use sparkctl::event::Rung;
use sparkctl::host::fake::Behaviour;
use sparkctl::profile::{EngineKind, Launch};
use sparkctl::status::{Health, Status, ask};

use crate::desk::{Command, Desk, seed_profile};

async fn asked(desk: &Desk) -> Status {
    ask(&desk.profile, &desk.hosts(), &[]).await
}

fn check(status: &Status, health: Health, exit: Exit, problem: &str) {
    let problems: Vec<_> = status.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!((status.health, status.exit()), (health, exit), "{problems:?}");
    if problem.is_empty() {
        assert_eq!(problems, [] as [&str; 0]);
    } else {
        assert!(problems.iter().any(|told| told.contains(problem)), "{problems:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_was_ever_deployed() {
    check(&asked(&Desk::seed()).await, Health::Stopped, Exit::Unhealthy, "");
}

#[tokio::test(start_paused = true)]
async fn serving() {
    let desk = Desk::seed();
    let status = asked(desk.deployed().await).await;
    check(&status, Health::Serving, Exit::Done, "");
    assert_eq!(status.rung, Some(Rung::Token));
    let verbose = sparkctl::report::status::status(&status, jiff::Timestamp::UNIX_EPOCH, true);
    assert!(verbose.contains("at its start: weights 63.2 GiB · KV cache 1.2 M tokens"), "{verbose}");
    let group = status.group.unwrap();
    assert_eq!((group.launch, group.alive.len(), &group.alive), (Launch::Ray, 2, &group.wanted));
    assert_eq!(status.load.unwrap().running, Some(1.0));
    assert_eq!(status.endpoint, "http://10.1.230.180:30000/v1");
}

/// By a native launch nothing but the containers and the head's own count tells of a lost worker: the endpoint of an
/// idle engine would go on saying that all is well.
#[tokio::test(start_paused = true)]
async fn a_rank_of_a_native_launch() {
    for kind in [EngineKind::Vllm, EngineKind::Sglang] {
        let mut profile = seed_profile();
        (profile.engine.kind, profile.engine.launch) = (kind, Some(Launch::Native));
        let desk = Desk::seed().with(profile);
        let status = asked(desk.deployed().await).await;
        check(&status, Health::Serving, Exit::Done, "");
        let group = status.group.clone().unwrap();
        assert_eq!((group.launch, group.alive.len(), &group.alive), (Launch::Native, 2, &group.wanted));
        assert_eq!(status.load.clone().unwrap().running, Some(1.0));
        let screen = sparkctl::report::status::status(&status, jiff::Timestamp::UNIX_EPOCH, false);
        assert!(screen.contains("native 2 of 2 ranks"), "{screen}");

        desk.cluster.machine("spark2", |m| m.kill("sparkctl-qwen35-122b-1"));
        let status = asked(&desk).await;
        check(&status, Health::Degraded, Exit::Unhealthy, "rank 1 (spark2) ended: exit status 137");
        check(&status, Health::Degraded, Exit::Unhealthy, "the head has no rank at 192.168.200.13");
        check(&status, Health::Degraded, Exit::Unhealthy, "connection refused");
    }
}

#[tokio::test(start_paused = true)]
async fn stopped() {
    let desk = Desk::seed();
    desk.deployed().await.run(Command::Stop).await;
    check(&asked(&desk).await, Health::Stopped, Exit::Unhealthy, "");
}

/// The head lists its model on; only a completion shows that a rank is gone.
#[tokio::test(start_paused = true)]
async fn a_rank_ended() {
    let desk = Desk::seed();
    desk.deployed().await;
    desk.cluster.machine("spark2", |m| m.kill("sparkctl-qwen35-122b-1"));
    let status = asked(&desk).await;
    check(&status, Health::Degraded, Exit::Unhealthy, "rank 1 (spark2) ended: exit status 137");
    check(&status, Health::Degraded, Exit::Unhealthy, "the endpoint does not complete a request: HTTP 500");
    assert_eq!(status.rung, Some(Rung::Listed));
    check(&status, Health::Degraded, Exit::Unhealthy, "Ray does not count 192.168.200.13");
}

#[tokio::test(start_paused = true)]
async fn a_rank_has_no_container() {
    let desk = Desk::seed();
    desk.deployed().await;
    desk.cluster.machine("spark1", |m| drop(m.containers.remove("sparkctl-qwen35-122b-0")));
    check(&asked(&desk).await, Health::Degraded, Exit::Unhealthy, "rank 0 (spark1) has no container");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_asked_is_unknown() {
    for node in ["spark1", "spark2"] {
        let desk = Desk::seed();
        desk.deployed().await;
        desk.cluster.set_reachable(node, false);
        let status = asked(&desk).await;
        assert_eq!((status.health, status.exit()), (Health::Unknown, Exit::Unreachable), "{node}");
        let rank = status.ranks.iter().find(|rank| rank.node.as_str() == node).unwrap();
        assert!(rank.container.is_none());
        assert!(rank.unknown.as_ref().unwrap().contains("lost the connection"), "{:?}", rank.unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn both_nodes_cannot_be_asked() {
    let desk = Desk::seed();
    for node in ["spark1", "spark2"] {
        desk.cluster.set_reachable(node, false);
    }
    check(&asked(&desk).await, Health::Unknown, Exit::Unreachable, "rank 1 (spark2) cannot be asked");
}

#[tokio::test(start_paused = true)]
async fn starting() {
    let desk = Desk::seed();
    desk.cluster.behave(1, Behaviour::NeverReady);
    let deploying = desk.run(Command::Deploy);
    let looking = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        asked(&desk).await
    };
    tokio::pin!(deploying);
    let status = tokio::select! {
        run = &mut deploying => panic!("{:?}", run.outcome),
        status = looking => status,
    };
    check(&status, Health::Starting, Exit::Unhealthy, "connection refused");
    assert_eq!(status.rung, Some(Rung::Joined));
    let screen = sparkctl::report::status::status(&status, jiff::Timestamp::UNIX_EPOCH, false);
    assert!(screen.contains("reached: ranks joined"), "{screen}");
}
