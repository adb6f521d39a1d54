//! The planner: profile (or a recorded release) and facts in, plan out. Pure and deterministic.
//!
//! It compares with what runs, never with what was recorded: a stale record cannot mislead it. The
//! whole group is replaced or none of it, and whatever of ours runs is stopped before anything of
//! ours starts, so at no time do two engines hold one GPU.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::difference::differences;
use super::{Action, Plan, StageKind, Step, bytes, group};
use crate::check::{self, Finding, Severity};
use crate::cluster::facts::{ModelFolder, NodeFacts};
use crate::container::{ImageContent, Rank};
use crate::delivery::{Delivery, kept};
use crate::engine::{self, Member, rules};
use crate::fabric::Links;
use crate::profile::{DeploymentName, NodeName, Profile};
use crate::release::{FORMAT, Figures, Outcome, RecordedImage, Release, ReleaseNumber};

/// Who plans, and when: what goes into a new release's record.
#[derive(Debug, Clone)]
pub struct Operator {
    /// User and machine.
    pub who: String,
    pub now: Timestamp,
    /// Checks whose findings do not count.
    pub skip: Vec<String>,
    /// What the operation's hooks are known by.
    pub token: String,
}

/// A plan, and what was found on the way.
#[derive(Debug, Clone)]
pub struct Planned {
    pub plan: Plan,
    /// The group that will serve.
    pub ranks: Vec<Rank>,
    /// Warnings and notes: an error would have refused it.
    pub warnings: Vec<Finding>,
}

/// Findings, at least one an error: nothing may be done.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{} of the checks failed; nothing was changed", .0.iter().filter(|f| f.severity == Severity::Error).count())]
pub struct Refused(pub Vec<Finding>);

/// What `deploy` will do. `facts` are in the order of the profile's nodes, `links` those of the fabric as far as they were
/// probed; `delivery` is what the profile's files and secrets hold.
pub fn deploy(
    profile: &Profile,
    delivery: &Delivery,
    facts: &[NodeFacts],
    links: &Links,
    operator: &Operator,
) -> Result<Planned, Refused> {
    let mut findings = check::check(profile, facts, links);
    let recorded = running(&profile.name, facts).and_then(|number| release_numbered(number, facts));
    if let Some(release) = recorded.filter(|release| !same_nodes(&release.profile, profile)) {
        findings.push(check::other_nodes(&release, "would be left running there"));
    }
    let content = image_content(profile, facts, &mut findings);
    let (Some(content), Some(weights), Some(members)) =
        (content, model_folder(&facts[0], &findings), members(profile, facts))
    else {
        return Err(Refused(check::without_skipped(findings, &operator.skip)));
    };
    findings.extend(check::image_architecture(&content, facts));
    let number = highest(&profile.name, facts).next();
    let mut ranks = engine::ranks(profile, &content, &members);
    kept::mount(&mut ranks, &profile.name, delivery, facts, number);
    let release = Release {
        format: FORMAT,
        deployment: profile.name.clone(),
        number,
        begun: operator.now,
        operator: operator.who.clone(),
        sparkctl: env!("CARGO_PKG_VERSION").to_owned(),
        image: RecordedImage {
            reference: profile.image.reference.with_tag(),
            software: facts.iter().find_map(|facts| facts.image(&content)?.software.clone()),
            content: content.clone(),
        },
        weights: bytes::weights_digest(&weights.files),
        weights_content: bytes::weights_content(&weights.files),
        ranks,
        profile: profile.clone(),
        outcome: Outcome::Begun,
        skipped: operator.skip.clone(),
        figures: Figures::default(),
        unknown: Vec::new(),
    };
    let new = New { delivery, token: &operator.token };
    bring_up(release, Some(&new), facts, weights, findings)
}

/// What to make of a model folder that is not what the release was served from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherWeights {
    /// A rollback is refused: it would not be the same release.
    Refuse,
    /// A restore goes on, and says so: the files cannot be put back, and nothing serves.
    Tell,
}

/// What `rollback`, or a restore after a failure, will do: the same group that served as `target`.
pub fn restore(target: &Release, facts: &[NodeFacts], other: OtherWeights) -> Result<Planned, Refused> {
    let profile = &target.profile;
    let here: Vec<_> = facts.iter().map(|facts| &facts.node).collect();
    if profile.cluster.nodes.iter().map(|node| &node.name).ne(here.iter().copied()) {
        return Err(Refused(vec![check::other_nodes(target, "cannot come back there")]));
    }
    let mut findings = check::again(profile, facts);
    let weights = model_folder(&facts[0], &findings);
    if !facts.iter().any(|facts| facts.image(&target.image.content).is_some()) {
        findings.push(Finding::error(
            "image-absent",
            None,
            format!(
                "the image of release {} ({}) is on no node any more",
                target.number, target.image.content
            ),
            "deploy anew: the release cannot come back without its image",
        ));
    }
    let found = match other {
        OtherWeights::Refuse => Finding::error,
        OtherWeights::Tell => Finding::warning,
    };
    if target.is_known_in_part() {
        let fields = target.unknown.join(", ");
        findings.push(found(
            "release-known-in-part",
            None,
            format!("how release {} starts is known here in part only: {fields}", target.number),
            "use the sparkctl that deployed it, or a newer one",
        ));
    }
    if let Some(weights) = weights
        && !bytes::is_of(target, &weights.files)
    {
        findings.push(found(
            "weights-changed",
            Some(&facts[0].node),
            format!("`{}` is not what release {} was served from", profile.model.path, target.number),
            "put the files back, or deploy anew",
        ));
    }
    let Some(weights) = weights else {
        return Err(Refused(check::without_skipped(findings, &target.skipped)));
    };
    bring_up(target.clone(), None, facts, weights, findings)
}

/// What a `sync` is to do beside bringing what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SyncWishes {
    /// Every file is hashed anew on every node, whatever was seen before.
    pub verify: bool,
    /// Files that the head's folder does not have are removed from the others.
    pub delete_extra: bool,
}

/// What `sync` will do, and what it is about.
#[derive(Debug, Clone)]
pub struct Sync {
    pub planned: Planned,
    /// Files of the model, and their bytes.
    pub files: usize,
    pub bytes: u64,
    /// Files beside the model's, by node; they stay unless their end is wished for.
    pub extra: BTreeMap<NodeName, Vec<String>>,
}

/// What `sync` will do: the head's model to all nodes. What runs is not touched.
pub fn sync(profile: &Profile, facts: &[NodeFacts], wishes: SyncWishes) -> Result<Sync, Refused> {
    let mut findings = check::of_weights(profile, facts);
    let Some(weights) = model_folder(&facts[0], &findings) else { return Err(Refused(findings)) };
    let mut copies = bytes::weights(profile, facts, weights, wishes.verify, &mut findings);
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(Refused(findings));
    }
    let extra = bytes::extra(facts, weights);
    if wishes.delete_extra {
        copies.extend(extra.iter().map(|(facts, files)| Step {
            node: facts.node.clone(),
            action: Action::RemoveFiles { path: profile.model.path.clone(), files: files.clone() },
        }));
    }
    let plan = Plan {
        deployment: profile.name.clone(),
        release: None,
        running: running(&profile.name, facts),
        engine: None,
        nodes: facts.iter().map(|facts| facts.node.clone()).collect(),
        stages: group::stages([(StageKind::Weights, copies)]),
        differences: Vec::new(),
        last_start_seconds: None,
        endpoint: None,
    };
    Ok(Sync {
        planned: Planned { plan, ranks: Vec::new(), warnings: findings },
        files: weights.files.len(),
        bytes: weights.files.iter().map(|file| file.size).sum(),
        extra: extra.into_iter().map(|(facts, files)| (facts.node.clone(), files)).collect(),
    })
}

/// What `stop` will do: every container of the deployment ends.
pub fn stop(deployment: &DeploymentName, facts: &[NodeFacts]) -> Plan {
    Plan {
        deployment: deployment.clone(),
        release: None,
        running: running(deployment, facts),
        engine: None,
        nodes: facts.iter().map(|facts| facts.node.clone()).collect(),
        stages: group::stages([group::retire(deployment, facts)]),
        differences: Vec::new(),
        last_start_seconds: None,
        endpoint: None,
    }
}

/// What `push` will do: the image to the nodes that lack it, and sparkctl's own name for it. What runs is not touched.
pub fn push(profile: &Profile, facts: &[NodeFacts]) -> Result<(Plan, RecordedImage), Refused> {
    let mut findings = Vec::new();
    let Some(content) = image_content(profile, facts, &mut findings) else {
        // A deploy would build it; here nothing but the image is wanted.
        for finding in &mut findings {
            finding.severity = Severity::Error;
        }
        return Err(Refused(findings));
    };
    findings.extend(check::image_architecture(&content, facts));
    let image = RecordedImage { reference: profile.image.reference.with_tag(), content, software: None };
    let steps = bytes::image(profile, &image, facts, &mut findings);
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(Refused(findings));
    }
    let plan = Plan {
        deployment: profile.name.clone(),
        engine: None,
        release: None,
        running: running(&profile.name, facts),
        nodes: facts.iter().map(|facts| facts.node.clone()).collect(),
        stages: group::stages([(StageKind::Image, steps)]),
        differences: Vec::new(),
        last_start_seconds: None,
        endpoint: None,
    };
    Ok((plan, image))
}

/// The release to go back to from the one that runs: the newest that was deployed before it. Where
/// nothing runs, from the newest there is, also one that never served: what a deploy that was killed
/// or that failed has left is not what to go back past.
pub fn release_before(deployment: &DeploymentName, facts: &[NodeFacts]) -> Option<Release> {
    let last = || facts.iter().flat_map(|facts| &facts.releases).map(|release| release.number).max();
    let current = running(deployment, facts).or_else(last)?;
    newest(facts, |release| release.number < current)
}

/// Whether two profiles name the same nodes, at the same places of the fabric, in the same order.
fn same_nodes(one: &Profile, other: &Profile) -> bool {
    let places = |profile: &Profile| -> Vec<_> {
        profile.cluster.nodes.iter().map(|node| (node.name.clone(), node.fabric)).collect()
    };
    places(one) == places(other)
}

/// The highest number that any node knows, from records or from containers.
fn highest(deployment: &DeploymentName, facts: &[NodeFacts]) -> ReleaseNumber {
    let recorded = facts.iter().filter_map(|facts| facts.highest_release);
    let labelled = facts.iter().flat_map(|facts| facts.ours(deployment)).map(|(_, ours)| ours.release);
    recorded.chain(labelled).max().unwrap_or(ReleaseNumber(0))
}

/// A release by number, from whichever node has its record.
pub fn release_numbered(number: ReleaseNumber, facts: &[NodeFacts]) -> Option<Release> {
    facts.iter().flat_map(|facts| &facts.releases).find(|release| release.number == number).cloned()
}

/// The newest deployed release for which `wanted` holds.
fn newest(facts: &[NodeFacts], wanted: impl Fn(&Release) -> bool) -> Option<Release> {
    facts
        .iter()
        .flat_map(|facts| &facts.releases)
        .filter(|release| release.outcome == Outcome::Deployed && wanted(release))
        .max_by_key(|release| release.number)
        .cloned()
}

/// The release of the containers that run: of the head's, else of any.
pub fn running(deployment: &DeploymentName, facts: &[NodeFacts]) -> Option<ReleaseNumber> {
    facts
        .iter()
        .flat_map(|facts| facts.ours(deployment))
        .filter(|(container, _)| container.state.running)
        .map(|(_, ours)| ours.release)
        .next()
}

/// What a release that has no record yet comes with.
struct New<'a> {
    delivery: &'a Delivery,
    token: &'a str,
}

/// The plan that makes `release`'s group the one that runs.
fn bring_up(
    mut release: Release,
    new: Option<&New<'_>>,
    facts: &[NodeFacts],
    weights: &ModelFolder,
    mut findings: Vec<Finding>,
) -> Result<Planned, Refused> {
    let profile = release.profile.clone();
    let ranks = release.ranks.clone();
    let copies = bytes::weights(&profile, facts, weights, false, &mut findings);
    let images = bytes::image(&profile, &release.image, facts, &mut findings);
    let nothing = Delivery::default();
    let files = super::kept::steps(&release, facts, new.map_or(&nothing, |new| new.delivery), &mut findings);
    let findings = check::without_skipped(findings, &release.skipped);
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(Refused(findings));
    }
    let differences = differences(&release, facts);
    let current = running(&profile.name, facts);
    let recorded = current.and_then(|number| release_numbered(number, facts));
    let in_place = differences.is_empty();
    let mut all = vec![(StageKind::Weights, copies), (StageKind::Image, images), (StageKind::Files, files)];
    if in_place {
        // The containers keep the release that they were started for; its record may still be unfinished.
        let number = current.expect("a group without differences runs");
        release = recorded.clone().unwrap_or(Release { number, ..release });
        let record = group::record(&release, facts, false);
        if !record.1.is_empty() {
            all.extend(group::prove(&release));
            all.extend(group::recorded(&release, facts, new.map(|new| new.token), record));
        }
    } else {
        if new.is_some() {
            all.push(group::begin(&release));
        }
        all.push(group::retire(&profile.name, facts));
        all.push(group::free(&release, facts));
        all.push(group::start(&release));
        all.extend(group::prove(&release));
        let record = group::record(&release, facts, true);
        all.extend(group::recorded(&release, facts, new.map(|new| new.token), record));
    }
    let plan = Plan {
        deployment: profile.name.clone(),
        release: Some(release.number),
        running: current,
        engine: engine_words(&release),
        nodes: profile.cluster.nodes.iter().map(|node| node.name.clone()).collect(),
        stages: group::stages(all),
        differences,
        last_start_seconds: recorded.and_then(|release| release.figures.start_seconds),
        endpoint: Some(profile.endpoint()),
    };
    Ok(Planned { plan, ranks, warnings: findings })
}

/// The engine of a release, with its version.
fn engine_words(release: &Release) -> Option<String> {
    let profile = &release.profile;
    let installed = rules::installed(profile.engine.kind, release.image.software.as_ref()?)?;
    Some(installed.words(profile))
}

/// The image's content: what the head has under the name, else what any node has.
fn image_content(
    profile: &Profile,
    facts: &[NodeFacts],
    findings: &mut Vec<Finding>,
) -> Option<ImageContent> {
    let reference = profile.image.reference.with_tag();
    let found = facts.iter().find_map(|facts| facts.image_named(&reference));
    if found.is_none() && profile.image.build.is_some() {
        let message = format!("image `{reference}` is not built yet");
        let hint = "`sparkctl deploy` builds it, and plans then";
        findings.push(Finding::note("image-absent", None, message, hint).at("image.build"));
    } else if found.is_none() {
        findings.push(
            Finding::error(
                "image-absent",
                None,
                format!("image `{reference}` is on no node"),
                &format!("on {}: docker pull {reference}", facts[0].node),
            )
            .at("image.reference"),
        );
    }
    found.map(|image| image.content.clone())
}

/// The head's folder of the model; `None` where a finding says that it is none.
fn model_folder<'a>(head: &'a NodeFacts, findings: &[Finding]) -> Option<&'a ModelFolder> {
    if findings.iter().any(|finding| finding.id == "model-absent") { None } else { head.model.as_ref() }
}

/// What the engine needs to know of each node; `None` where the fabric is not there (a finding says so).
fn members(profile: &Profile, facts: &[NodeFacts]) -> Option<Vec<Member>> {
    let member = |(node, facts): (&crate::profile::Node, &NodeFacts)| {
        let interface = facts.interface_of(node.fabric)?;
        Some(Member {
            node: node.name.clone(),
            address: node.fabric,
            interface: interface.name.clone(),
            rdma: interface.rdma.clone(),
            infiniband: facts.infiniband,
            gpus: !facts.gpus.is_empty(),
        })
    };
    profile.cluster.nodes.iter().zip(facts).map(member).collect()
}
