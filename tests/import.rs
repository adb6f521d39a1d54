//! Recipes become profiles that load and plan: those of `tests/data/recipes`, each with what the public ones have, and
//! any others by `SPARKCTL_RECIPES`.
//!
//! The measure over public recipes, which are not ours to keep here:
//!
//! ```text
//! SPARKCTL_RECIPES=DIR cargo test --test import -- --ignored --nocapture
//! ```
//!
//! prints, for every file below DIR, whether it imports to a profile that `plan` accepts, and why not.

mod desk;

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use desk::{Desk, operator};
use sparkctl::cluster::facts::NodeFacts;
use sparkctl::config;
use sparkctl::delivery::{self, Delivery};
use sparkctl::host::{FakeCluster, Host};
use sparkctl::import::folder::Disk;
use sparkctl::import::write::yaml;
use sparkctl::import::{Imported, Wanted, import};
use sparkctl::operation;
use sparkctl::plan::planner;
use sparkctl::profile::{Cluster, Node, NodeName, Profile};

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recipes")
}

/// Sparks of this number, on one fabric.
fn cluster(count: u8) -> Cluster {
    let node = |number| Node {
        name: format!("spark{number}").parse().unwrap(),
        host: format!("spark{number}"),
        fabric: Ipv4Addr::new(192, 168, 200, 11 + number),
    };
    Cluster { user: Some("aurora".to_owned()), nodes: (1..=count).map(node).collect() }
}

fn made(file: &Path, wanted: &Wanted) -> Result<Imported, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let name = file.file_name().unwrap().to_str().unwrap();
    let disk = Disk { recipe: file.parent().unwrap().to_owned(), mods: Vec::new(), profile: None };
    import(name, &text, wanted, &disk)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
}

/// The profile in the file that the import writes.
fn loaded(imported: &Imported) -> Result<Profile, String> {
    config::parse("imported.yaml", &yaml(imported, "recipe.yaml")).map_err(|error| error.to_string())
}

/// What is seen on Sparks that have the model and the image.
async fn facts(profile: &Profile) -> Vec<NodeFacts> {
    let seed = FakeCluster::seed();
    let machines = seed.machines();
    let pattern = &machines[&"spark1".parse::<NodeName>().unwrap()];
    let machine = |node: &Node| {
        let mut machine = pattern.clone();
        machine.system.hostname = node.name.to_string();
        machine.system.boot_id = format!("boot-of-{}", node.name);
        for address in machine.interfaces.iter_mut().flat_map(|interface| &mut interface.addresses) {
            if address.address == Ipv4Addr::new(192, 168, 200, 12) {
                address.address = node.fabric;
            } else if !address.address.is_loopback() {
                address.address = Ipv4Addr::new(10, 1, 230, node.fabric.octets()[3]);
            }
        }
        let model = machine.folders.values().next().unwrap().clone();
        machine.folders = BTreeMap::from([(profile.model.path.clone(), model)]);
        for image in &mut machine.images {
            image.references = vec![profile.image.reference.with_tag()];
        }
        (node.name.clone(), machine)
    };
    let desk = Desk {
        cluster: FakeCluster::new(profile.cluster.nodes.iter().map(machine)),
        profile: profile.clone(),
        delivery: Delivery::default(),
    };
    let host = |node: &NodeName| Arc::new(desk.cluster.host(node)) as Arc<dyn Host>;
    let hosts = profile.cluster.nodes.iter().map(|node| (node.name.clone(), host(&node.name))).collect();
    operation::look(profile, &hosts).await.expect("the machines answer")
}

/// Whether the profile loads from its file, and plans against what is on Sparks.
async fn planned(imported: &Imported) -> Result<(), String> {
    let mut profile = loaded(imported)?;
    // A secret is the operator's, who is not here.
    profile.engine.env.retain(|_, value| value.text().is_some());
    let delivery = delivery::read::read(&profile).await.map_err(|problems| {
        problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
    })?;
    let facts = facts(&profile).await;
    match planner::deploy(&profile, &delivery, &facts, &operator()) {
        Ok(planned) if planned.plan.is_empty() => Err("the plan is empty".to_owned()),
        Ok(_) => Ok(()),
        Err(refused) => {
            Err(refused.0.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>().join("; "))
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "mods") {
                found.extend(files(&path));
            }
        } else if path.to_string_lossy().contains(".y") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn on_sparks() -> Wanted {
    Wanted { name: None, cluster: Some(cluster(8)), models: "/home/aurora/models".to_owned() }
}

/// The measure; see the top of this file.
#[tokio::test(start_paused = true)]
#[ignore = "needs SPARKCTL_RECIPES, a folder with recipes"]
async fn of_a_folder() {
    let folder = std::env::var("SPARKCTL_RECIPES").expect("SPARKCTL_RECIPES names a folder with recipes");
    let (mut good, mut bad, mut lost) = (0, Vec::new(), 0);
    let all = files(Path::new(&folder));
    for file in &all {
        let result = match made(file, &on_sparks()) {
            Ok(imported) => {
                lost += imported.report.not_carried.len();
                planned(&imported).await.map_err(|why| format!("imports, and does not plan: {why}"))
            }
            Err(why) => Err(why),
        };
        match result {
            Ok(()) => good += 1,
            Err(why) => bad.push(format!("{}: {why}", file.display())),
        }
    }
    println!("{good} of {} import to profiles that plan; {lost} parts were not carried over", all.len());
    bad.iter().for_each(|line| println!("  {line}"));
}
