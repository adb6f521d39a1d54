//! Recorded facts: as machines in memory, as the ground of a plan, and from the command line.

#![expect(clippy::unwrap_used, reason = "what a test takes for granted may panic")]

mod desk;

use std::net::Ipv4Addr;
use std::process::Command as Process;

use desk::{Command, Desk, seed_profile};
use sparkctl::cluster::facts::{Depth, DockerFacts, NoDocker, NodeFacts};
use sparkctl::cluster::gather::{Request, gather};
use sparkctl::delivery::Delivery;
use sparkctl::event::RunOutcome;
use sparkctl::host::FakeCluster;
use sparkctl::host::fake::SEED_MODEL;

fn file(name: &str) -> String {
    format!("{}/tests/data/facts/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

fn recorded(name: &str) -> Vec<NodeFacts> {
    serde_json::from_str(&std::fs::read_to_string(file(name)).unwrap()).unwrap()
}

/// A machine made of facts prints what those facts were read from.
#[tokio::test(start_paused = true)]
async fn a_machine_of_recorded_facts_shows_the_same_facts() {
    for name in ["spark-pair", "spark-switch", "spark-ring", "x86-discrete"] {
        let wanted = recorded(name);
        let cluster = FakeCluster::recorded(&wanted, SEED_MODEL);
        for wanted in wanted {
            let asked = Request {
                depth: Depth::Check,
                deployment: Some("qwen35-122b".parse().unwrap()),
                model_path: Some(SEED_MODEL.to_owned()),
                peers: wanted.peers.iter().map(|peer| peer.address).collect(),
                scan: Some(Vec::new()),
            };
            let seen = gather(&cluster.host(&wanted.node), &asked).await.unwrap();
            let lost = |facts: &NodeFacts| facts.lost_peers().collect::<Vec<Ipv4Addr>>();
            assert_eq!(lost(&seen), lost(&wanted), "{name}");
            let (clock, took_ms, peers) = (wanted.clock, wanted.took_ms, wanted.peers.clone());
            assert_eq!(NodeFacts { clock, took_ms, peers, ..seen }, wanted, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_recorded_pair_can_be_deployed_to() {
    let cluster = FakeCluster::recorded(&recorded("spark-pair"), SEED_MODEL);
    let desk = Desk { cluster, profile: seed_profile(), delivery: Delivery::default() };
    let run = desk.run(Command::Deploy).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
    desk.hold_to_account(&run);
}

/// A Docker Engine that cannot be used is a fact for who looks, and an end for who acts.
#[tokio::test(start_paused = true)]
async fn docker_that_cannot_be_used() {
    let desk = Desk::seed();
    let forbidden = NoDocker::Forbidden { user: "aurora".to_owned() };
    desk.cluster.machine("spark2", |machine| machine.no_docker = Some(forbidden.clone()));
    let node = "spark2".parse().unwrap();
    let facts = gather(&desk.cluster.host(&node), &Request::of(&desk.profile, Depth::Check)).await.unwrap();
    assert_eq!(facts.docker, DockerFacts::Unusable(forbidden));
    assert_eq!((facts.images.len(), facts.system.hostname.as_str()), (0, "spark2"));
    let run = desk.run(Command::Deploy).await;
    let Some(RunOutcome::Unreachable { errors, hints, .. }) = &run.outcome else {
        panic!("{:?}", run.outcome)
    };
    assert_eq!(*errors, ["Docker on spark2 cannot be used: user `aurora` may not use /var/run/docker.sock"]);
    assert!(hints[0].contains("usermod -aG docker aurora"), "{hints:?}");
    desk.hold_to_account(&run);
}

/// Runs `sparkctl plan` on recorded facts.
fn plan(profile: &str, facts: &str) -> (Option<i32>, String) {
    let state = tempfile::tempdir().unwrap();
    let output = Process::new(env!("CARGO_BIN_EXE_sparkctl"))
        .args(["plan", profile, "--facts", facts])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("XDG_STATE_HOME", state.path())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_plan_against_recorded_facts() {
    const PROFILE: &str = "profiles/qwen35-122b.yaml";
    let (code, said) = plan(PROFILE, &file("spark-pair"));
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("spark2") && said.contains("119 GB"),
        "the weights have to go to the second node: {said}"
    );
    let (code, said) = plan(PROFILE, &file("spark-ring"));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("it has facts of 4 nodes, the profile has 2"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let pair_of_four = folder.path().join("facts.json");
    let text = serde_json::to_string(&recorded("spark-switch")[..2]).unwrap();
    std::fs::write(&pair_of_four, text).unwrap();
    let (code, said) = plan(PROFILE, pair_of_four.to_str().unwrap());
    assert_eq!(code, Some(3), "other addresses than the profile's are refused: {said}");
    assert!(said.contains("no interface has the fabric address 192.168.200.12"), "{said}");
    let (code, said) = plan(PROFILE, "no/such/file.json");
    assert_eq!((code, said.contains("cannot plan against no/such/file.json")), (Some(2), true), "{said}");
}
