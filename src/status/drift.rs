//! Drift: what a plan does not look at as it makes a container anew. What runs is not what the record of its release says,
//! or would not run again as it does. Pure.
//!
//! Left out: what other processes did to the engine's environment, which is asked of the processes themselves.

use super::Problem;
use crate::cluster::facts::{Container, Image, NodeFacts};
use crate::cluster::parse::served;
use crate::container::{Rank, container_name};
use crate::delivery::kept::Kept;
use crate::release::{Outcome, Release};

/// What of `release`, which runs, has drifted. `tagged` is what the head has now under the name that its image had.
pub(super) fn drift(release: &Release, facts: &[NodeFacts], tagged: Option<&Image>) -> Vec<Problem> {
    let mut found = Vec::new();
    for rank in &release.ranks {
        let Some(facts) = facts.iter().find(|facts| facts.node == rank.node) else { continue };
        let name = container_name(&release.deployment, rank.rank);
        let mut ours = facts.ours(&release.deployment);
        let container =
            ours.find(|(container, ours)| container.name == name && ours.release == release.number);
        if let Some((container, _)) = container {
            of_rank(release, rank, facts, container, &mut found);
        }
    }
    found.extend(tagged.and_then(|image| moved(release, image)));
    found
}

fn of_rank(
    release: &Release,
    rank: &Rank,
    facts: &NodeFacts,
    container: &Container,
    found: &mut Vec<Problem>,
) {
    let place = format!("rank {} ({})", rank.rank, rank.node);
    let anew = || Some(format!("sparkctl stop {}, then deploy: it is made anew", release.deployment));
    let mut tell = |what: String, hint| found.push(Problem { message: format!("{place} {what}"), hint });
    if container.argv != served::blotted(&rank.spec.argv) {
        tell(format!("has another command line than the record of release {}", release.number), anew());
    }
    for mount in &rank.spec.mounts {
        if let Some(kept) = Kept::mounted(&mount.source, &facts.system.home, &release.deployment)
            && !kept.is_in(&facts.kept)
        {
            let hint = "sparkctl deploy PROFILE brings it there again, as the next start needs it";
            let what = format!("reads {}, which does not lie on the node any more", mount.target);
            tell(what, Some(hint.to_owned()));
        }
        let has = container.mounts.get(&mount.target);
        if mount.source.starts_with('/') && has != Some(&mount.source) {
            let what = format!(
                "has {} at {}, and not {}",
                has.map_or("nothing", String::as_str),
                mount.target,
                mount.source
            );
            tell(what, anew());
        }
    }
    if release.outcome == Outcome::Deployed && container.restart != "unless-stopped" {
        let hint = "sparkctl deploy PROFILE sets its restart policy again";
        tell(
            format!("does not come back with the node: its restart policy is {}", container.restart),
            Some(hint.to_owned()),
        );
    }
}

/// The name that the release's image had is another image's by now.
fn moved(release: &Release, image: &Image) -> Option<Problem> {
    let (reference, content) = (&release.image.reference, &release.image.content);
    (image.content != *content).then(|| Problem {
        message: format!("`{reference}` is another image by now, {} and not {content}", image.content),
        hint: Some(
            "the release keeps its own; sparkctl plan PROFILE shows what the other would change".to_owned(),
        ),
    })
}
