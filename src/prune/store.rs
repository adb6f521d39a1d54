//! Looking at what of sparkctl's lies on nodes, and removing what nothing needs, one thing after the other.

use std::time::Duration;

use futures_util::future::join_all;

use super::{Inventory, Item, Kind, Prune};
use crate::cluster::facts::NodeFacts;
use crate::error::in_full;
use crate::execute::Hosts;
use crate::host::{Host, HostError, Script};
use crate::profile::{NodeName, Profile};
use crate::release::store::succeeded;
use crate::transfer::python;

/// How long looking, or removing one thing, may take: a model has hundreds of gigabytes.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// What became of one thing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Removed {
    pub node: NodeName,
    pub item: Item,
    /// Why it stays, if it does.
    pub why: Option<String>,
}

/// Looks at what lies on all nodes, in the order of `facts`.
pub async fn look(
    profile: &Profile,
    hosts: &Hosts,
    facts: &[NodeFacts],
) -> Result<Vec<Inventory>, Vec<HostError>> {
    let mut models: Vec<_> = facts
        .iter()
        .flat_map(|facts| &facts.releases)
        .map(|release| release.profile.model.path.clone())
        .chain([profile.model.path.clone()])
        .collect();
    models.sort();
    models.dedup();
    let all = facts.iter().map(|facts| inventory(profile, hosts[&facts.node].as_ref(), &models));
    let (mut inventories, mut errors) = (Vec::new(), Vec::new());
    for result in join_all(all).await {
        match result {
            Ok(inventory) => inventories.push(inventory),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(inventories) } else { Err(errors) }
}

async fn inventory(profile: &Profile, host: &dyn Host, models: &[String]) -> Result<Inventory, HostError> {
    let what = "say what of sparkctl's lies there";
    let arguments = std::iter::once(profile.name.to_string()).chain(models.iter().cloned());
    let script = Script::new("inventory", python!("inventory.py"), arguments).timeout(PATIENCE);
    let said = succeeded(host, what, &host.run(script).await?)?;
    serde_json::from_str(&said).map_err(|error| HostError::Failed {
        node: host.node().clone(),
        what: what.to_owned(),
        why: format!("its answer cannot be read: {error}"),
    })
}

/// Removes what `prune` says, on all nodes at once. Records stay on a node where anything else had to stay.
pub async fn remove(prune: &Prune, hosts: &Hosts) -> Vec<Removed> {
    let all = prune.nodes.iter().map(|(node, items)| async move {
        let host = hosts[node].as_ref();
        let mut results: Vec<Removed> = Vec::new();
        for item in items {
            let stays = results.iter().any(|removed| removed.why.is_some());
            let why = if item.kind == Kind::Release && stays {
                Some("what it needs could not all be removed".to_owned())
            } else {
                remove_one(host, item).await.err().map(|error| in_full(&error))
            };
            results.push(Removed { node: node.clone(), item: item.clone(), why });
        }
        results
    });
    join_all(all).await.concat()
}

async fn remove_one(host: &dyn Host, item: &Item) -> Result<(), HostError> {
    let arguments = std::iter::once(item.kind.word().to_owned()).chain(item.name.iter().cloned());
    let script = Script::new("remove", include_str!("remove.sh"), arguments).timeout(PATIENCE);
    let what = format!("remove {} {}", item.kind.word(), item.name.join(" "));
    succeeded(host, &what, &host.run(script).await?).map(drop)
}
