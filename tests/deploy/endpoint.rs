//! Who may use the endpoint, where it listens, what its ranks run with, and the image that a profile builds.

use std::collections::BTreeMap;

use sparkctl::check::Severity;
use sparkctl::delivery::{Content, Secret};
use sparkctl::engine::key_variable;
use sparkctl::event::{Event, RunOutcome};
use sparkctl::host::fake::Behaviour;
use sparkctl::profile::{Build, EngineKind, Launch, Listen, SecretSource};
use sparkctl::status::{Health, ask};

use crate::desk::{Command, Desk};

const KEY: &str = "sk-5f1c2d3e4a5b";

fn with_key(desk: &Desk, kind: EngineKind, key: &str) -> Desk {
    let mut desk = desk.clone();
    (desk.profile.engine.kind, desk.profile.engine.launch) = (kind, Some(Launch::Native));
    desk.profile.serve.open = false;
    desk.profile.serve.api_key = Some(SecretSource::File("/home/ada/key".to_owned()));
    desk.delivery.secrets.0.insert(key_variable(kind).to_owned(), Secret::from(key.to_owned()));
    desk
}

#[tokio::test(start_paused = true)]
async fn every_request_shows_the_key_and_nothing_else_does() {
    for kind in [EngineKind::Vllm, EngineKind::Sglang] {
        let desk = with_key(&Desk::seed(), kind, KEY);
        let run = desk.run(Command::Deploy).await;
        assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
        let told = serde_json::to_string(&run.events).unwrap();
        assert!(!told.contains(KEY), "an event has the key");
        // The operator's own key is not asked for again: status has it from the head.
        let other = with_key(&desk, kind, "sk-another-key");
        let status = ask(&other.profile, &other.hosts(), &[]).await;
        assert_eq!((status.health, status.problems), (Health::Serving, Vec::new()));
        let again = desk.run(Command::Deploy).await;
        assert!(matches!(again.outcome, Some(RunOutcome::NothingToDo { .. })), "{:?}", again.outcome);
        // Another key is another release, and it is proven by it.
        let run = other.run(Command::Deploy).await;
        assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_answers_without_the_key_is_not_left_serving() {
    let desk = Desk::seed();
    desk.deployed().await;
    desk.cluster.behave(2, Behaviour::IgnoresKey);
    let run = with_key(&desk, EngineKind::Vllm, KEY).run(Command::Deploy).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Restored { .. })), "{:?}", run.outcome);
    let failure = run.events.iter().find_map(|event| match event {
        Event::Failed { failure } => Some(failure.chain.join(": ")),
        _ => None,
    });
    assert!(failure.as_ref().unwrap().contains("answers a request without its key"), "{failure:?}");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_on_one_address_is_asked_there() {
    for (listen, endpoint) in
        [(Listen::Fabric, "http://192.168.200.12:30000/v1"), (Listen::Loopback, "http://127.0.0.1:30000/v1")]
    {
        let mut desk = Desk::seed();
        (desk.profile.serve.listen, desk.profile.serve.open) = (listen, false);
        let run = desk.run(Command::Deploy).await;
        assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
        let status = ask(&desk.profile, &desk.hosts(), &[]).await;
        assert_eq!((status.health, status.endpoint.as_str()), (Health::Serving, endpoint));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rank_that_runs_with_another_environment_is_told() {
    let desk = Desk::seed();
    desk.deployed().await;
    let status = ask(&desk.profile, &desk.hosts(), &[]).await;
    assert_eq!((status.health, status.warnings), (Health::Serving, Vec::new()));
    let strays = BTreeMap::from(
        [("NCCL_SOCKET_IFNAME", "eth7"), ("NCCL_P2P_DISABLE", "1"), ("OTHER", "1")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    desk.cluster.machine("spark2", |machine| {
        let rank = machine.containers.get_mut("sparkctl-qwen35-122b-1").unwrap();
        rank.strays = strays;
    });
    let status = ask(&desk.profile, &desk.hosts(), &[]).await;
    assert_eq!(status.health, Health::Serving, "it serves all the same");
    let told: Vec<_> = status.warnings.iter().map(|warning| warning.message.as_str()).collect();
    let [stray, steers] = told.as_slice() else { panic!("{told:?}") };
    assert!(
        stray.starts_with("spark2: rank 1") && stray.contains("`VLLM::EngineCore` has 1, which nobody set"),
        "{stray}"
    );
    assert!(steers.contains("NCCL_SOCKET_IFNAME") && steers.contains("has eth7, not"), "{steers}");
}

#[tokio::test(start_paused = true)]
async fn an_image_is_built_where_its_inputs_changed() {
    let mut desk = Desk::seed();
    desk.profile.image.reference = "acme/vllm-ray".parse().unwrap();
    let args = [("BASE".to_owned(), sparkctl::host::fake::SEED_IMAGE.to_owned())].into();
    desk.profile.image.build = Some(Build { folder: "/home/ada/engine-ray".to_owned(), args });
    desk.delivery.context = Some(Content::from(b"an archive".to_vec()));
    let builds = |desk: &Desk| {
        let effects = desk.cluster.effects();
        effects
            .iter()
            .filter(|effect| effect.name == "build-image")
            .map(|effect| effect.node.to_string())
            .collect::<Vec<_>>()
    };
    let before = desk.clone();
    let (hosts, operator) = (before.hosts(), crate::desk::operator());
    let found = sparkctl::operation::check(&before.profile, &before.delivery, &hosts, &operator, None);
    let found = found.await.findings;
    assert!(found.iter().any(|f| f.id == "image-absent" && f.severity == Severity::Note), "{found:?}");

    let run = desk.run(Command::Deploy).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
    assert_eq!(builds(&desk), ["spark1"]);
    let again = desk.run(Command::Deploy).await;
    assert!(matches!(again.outcome, Some(RunOutcome::NothingToDo { .. })), "{:?}", again.outcome);
    assert_eq!(builds(&desk).len(), 1, "nothing changed");
    // The base's tag moved on: its content is an input.
    desk.cluster.machine("spark1", |machine| {
        machine.put_image(
            &sparkctl::container::ImageContent("ab".repeat(32)),
            sparkctl::host::fake::SEED_IMAGE,
            "arm64",
            9,
        );
    });
    let run = desk.run(Command::Deploy).await;
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
    assert_eq!(builds(&desk).len(), 2);
}
