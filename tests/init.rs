//! From machines in memory to a profile that deploys as it is; and what is told where that cannot be.

#![expect(clippy::unwrap_used, reason = "what a test takes for granted may panic")]

mod desk;

use std::sync::Arc;

use desk::{Desk, seed_profile};
use sparkctl::cluster::facts::{FoundModel, ModelForm, ModelScan, NodeFacts};
use sparkctl::config;
use sparkctl::host::fake::{SEED_IMAGE, SEED_MODEL};
use sparkctl::host::{FakeCluster, Host};
use sparkctl::init::draft::{Seen, draft};
use sparkctl::init::fabric::{Choice, Wanted, choose};
use sparkctl::init::{look, pick, survey, write};
use sparkctl::profile::Profile;

/// The cluster that the project began with, whose model a search finds.
fn machines() -> FakeCluster {
    let cluster = FakeCluster::seed();
    let model = FoundModel {
        path: SEED_MODEL.to_owned(),
        form: ModelForm::LocalFolder,
        repo: Some("Qwen/Qwen3.5-122B-A10B-FP8".to_owned()),
        revision: None,
        complete: true,
        lacks: Vec::new(),
        bytes: 119_000_000_000,
        architecture: None,
        quantization: None,
        uid: 1000,
        readable: true,
        writable: true,
    };
    cluster.machine("spark1", |machine| {
        machine.models = Some(ModelScan { models: vec![model], ..ModelScan::default() });
        let config = include_str!("data/models/qwen3.5-122b-a10b-fp8/config.json");
        let folder = machine.folders.get_mut(SEED_MODEL).unwrap();
        folder.content.get_or_insert_default().config = Some(config.to_owned());
    });
    cluster
}

fn hosts(cluster: &FakeCluster) -> Vec<Arc<dyn Host>> {
    cluster.nodes().iter().map(|node| Arc::new(cluster.host(node)) as Arc<dyn Host>).collect()
}

/// What is seen, and which fabric is chosen.
async fn looked(cluster: &FakeCluster, wanted: Option<&str>) -> (Vec<NodeFacts>, Choice) {
    let hosts = hosts(cluster);
    let wanted = wanted.map(|wanted| wanted.parse::<Wanted>().unwrap());
    let mut facts: Vec<_> = look::machines(&hosts, &[]).await.into_iter().map(Result::unwrap).collect();
    look::peers(&hosts, &mut facts, wanted.as_ref()).await.unwrap();
    let choice = choose(&facts, wanted.as_ref());
    (facts, choice)
}

/// The profile that is written.
async fn profile(cluster: &FakeCluster) -> Profile {
    let (facts, fabric) = looked(cluster, None).await;
    let (model, image) = (pick::model(&facts, None), pick::image(&facts, None));
    let (_, folder) = model.lies.clone().unwrap();
    let content = look::content(hosts(cluster)[0].as_ref(), &folder).await.unwrap();
    let nodes: Vec<_> =
        facts.iter().map(|facts| survey::survey(facts, &format!("{}.lan", facts.node))).collect();
    let seen = Seen {
        facts: &facts,
        nodes: &nodes,
        user: Some("aurora"),
        fabric: fabric.chosen.as_ref().unwrap(),
        model: &model,
        content: content.as_ref(),
        image: &image,
        name: None,
    };
    let draft = draft(&seen);
    assert_eq!(draft.to_do, [], "nothing is in the way");
    config::parse("a.yaml", &write::yaml(&seen, &draft, "x.json", "a.yaml")).unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_written_deploys_as_it_is() {
    let cluster = machines();
    let profile = profile(&cluster).await;
    assert!(cluster.effects().iter().all(|effect| !effect.changes), "looking changed something");
    let expected = seed_profile();
    let fabric = |profile: &Profile| profile.cluster.nodes.iter().map(|node| node.fabric).collect::<Vec<_>>();
    assert_eq!(fabric(&profile), fabric(&expected));
    assert_eq!(profile.model, expected.model);
    assert_eq!(profile.image.reference.as_str(), SEED_IMAGE);
    let (engine, expected) = (&profile.engine, &expected.engine);
    assert_eq!(engine.tensor_parallel, 2);
    assert_eq!(engine.reasoning_parser, expected.reasoning_parser);
    assert_eq!(engine.tool_parser, expected.tool_parser);
    assert_eq!(engine.memory_fraction, Some(0.8));
    Desk { cluster, profile, delivery: sparkctl::delivery::Delivery::default() }.deployed().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_fabric_is_not_chosen() {
    let cluster = machines();
    cluster.machine("spark2", |machine| machine.lost_peers.push([192, 168, 200, 12].into()));
    let (_, choice) = looked(&cluster, None).await;
    assert_eq!(choice.chosen, None);
    let refusal = choice.refusal.unwrap();
    assert!(
        refusal.message.contains("spark1 (192.168.200.12) does not answer spark2"),
        "{}",
        refusal.message
    );
    // A person may know better.
    let (_, choice) = looked(&cluster, Some("192.168.200.0/24")).await;
    assert!(choice.chosen.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_gone_leaves_the_others() {
    let cluster = machines();
    cluster.set_reachable("spark2", false);
    let seen = look::machines(&hosts(&cluster), &[]).await;
    assert!(seen[0].is_ok() && seen[1].is_err());
}

/// Recorded machines: which fabric is chosen, or why none.
#[tokio::test(start_paused = true)]
async fn the_fabric_of_recorded_machines() {
    let cases = [
        (
            "spark-pair",
            "192.168.200.0/24: 192.168.200.12, 192.168.200.13",
            "192.168.201.0/24: it would do: the other half",
        ),
        (
            "spark-switch",
            "192.168.100.0/24: 192.168.100.11, 192.168.100.12, 192.168.100.13, 192.168.100.14",
            "192.168.101.0/24: it would do: the other half",
        ),
        (
            "spark-ring",
            "the nodes are tied by separate links",
            "192.168.101.0/30: only spark1 and spark2 are in it",
        ),
        ("x86-discrete", "10.0.0.0/24: 10.0.0.21", ""),
    ];
    for (name, expected, beside) in cases {
        let file = format!("{}/tests/data/facts/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let recorded: Vec<NodeFacts> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let (_, choice) = looked(&FakeCluster::recorded(&recorded, SEED_MODEL), None).await;
        let outcome = match (&choice.chosen, &choice.refusal) {
            (Some(chosen), _) => {
                let ends: Vec<_> = chosen.ends.iter().map(|end| end.address.to_string()).collect();
                format!("{}: {}", chosen.subnet.unwrap(), ends.join(", "))
            }
            (None, refusal) => refusal.as_ref().unwrap().message.clone(),
        };
        assert!(outcome.starts_with(expected), "{name}: {outcome}");
        let others = choice.others.iter().map(|other| format!("{}: {}", other.subnet, other.against[0]));
        let others = others.collect::<Vec<_>>().join("\n");
        assert!(others.contains(beside), "{name}: {others}");
    }
}
