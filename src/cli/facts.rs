//! `facts`: what is on the nodes of a profile now, as a document that `plan --facts` reads. Changes nothing.

use clap::Args;
use futures_util::future::join_all;

use super::{Global, known, print, session};
use crate::cluster::facts::Depth;
use crate::cluster::gather::{Request, gather};
use crate::cluster::software;
use crate::error::{CommandError, Exit};
use crate::report::json;

/// Prints all that is seen on the nodes of a profile, as JSON. Changes nothing.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  sparkctl facts profile.yaml > facts.json\n  sparkctl plan profile.yaml --facts facts.json"
)]
pub struct FactsArgs {
    #[command(flatten)]
    profile: known::ProfileArgs,
}

/// `sparkctl facts`.
pub async fn run(args: FactsArgs, global: &Global) -> Result<Exit, CommandError> {
    let profile = known::load(&args.profile)?.profile;
    let hosts = session::connect_all(&profile, global).await?;
    let request = Request { scan: Some(Vec::new()), ..Request::of(&profile, Depth::Check) };
    let looks = profile.cluster.nodes.iter().map(|node| gather(hosts[&node.name].as_ref(), &request));
    let (mut nodes, mut errors) = (Vec::new(), Vec::new());
    for look in join_all(looks).await {
        match look {
            Ok(facts) => nodes.push(facts),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(session::unreachable(&errors));
    }
    software::add(&profile, &hosts, &mut nodes).await;
    print(&format!("{}\n", json::document(serde_json::json!({ "nodes": nodes }))));
    Ok(Exit::Done)
}
