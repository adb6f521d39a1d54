//! The planner: profile (or a recorded release) and facts in, plan out. Pure and deterministic.
//!
//! It compares with what runs, never with what was recorded: a stale record cannot mislead it. The
//! whole group is replaced or none of it, and whatever of ours runs is stopped before anything of
//! ours starts, so at no time do two engines hold one GPU.

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::check::{self, Finding, Severity};
use super::render::size;
use super::{Action, Endpoint, Plan, ReadySpec, Stage, StageKind, Step};
use crate::cluster::facts::{ModelFile, ModelFolder, NodeFacts};
use crate::container::{ImageContent, Rank, container_name, hex};
use crate::engine::{self, Member};
use crate::profile::{DeploymentName, Profile};
use crate::release::{FORMAT, Figures, Outcome, RecordedImage, Release, ReleaseNumber};

/// Who plans, and when: what goes into a new release's record.
#[derive(Debug, Clone)]
pub struct Operator {
    /// User and machine.
    pub who: String,
    pub now: Timestamp,
}

/// A plan, and what was found on the way.
#[derive(Debug, Clone)]
pub struct Planned {
    pub plan: Plan,
    pub warnings: Vec<Finding>,
}

/// Findings, at least one an error: nothing may be done.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{} of the checks failed; nothing was changed", .0.iter().filter(|f| f.severity == Severity::Error).count())]
pub struct Refused(pub Vec<Finding>);

/// What `deploy` will do. `facts` are in the order of the profile's nodes.
pub fn deploy(profile: &Profile, facts: &[NodeFacts], operator: &Operator) -> Result<Planned, Refused> {
    let mut findings = check::check(profile, facts);
    findings.extend(check::mtu(profile, facts));
    let content = image_content(profile, facts, &mut findings);
    let weights = model_folder(profile, &facts[0], &mut findings);
    let (Some(content), Some(weights), Some(members)) = (content, weights, members(profile, facts)) else {
        return Err(Refused(findings));
    };
    findings.extend(check::image_architecture(&content, facts));
    let release = Release {
        format: FORMAT,
        deployment: profile.name.clone(),
        number: facts.iter().filter_map(|f| f.highest_release).max().unwrap_or(ReleaseNumber(0)).next(),
        begun: operator.now,
        operator: operator.who.clone(),
        sparkctl: env!("CARGO_PKG_VERSION").to_owned(),
        image: RecordedImage { reference: profile.image.reference.with_tag(), content: content.clone() },
        weights: weights_digest(&weights.files),
        ranks: engine::ranks(profile, &content, &members),
        profile: profile.clone(),
        outcome: Outcome::Begun,
        figures: Figures::default(),
    };
    group(release, true, facts, weights, findings)
}

/// What `rollback`, or a restore after a failure, will do: the same group that served as `target`.
pub fn restore(target: &Release, facts: &[NodeFacts]) -> Result<Planned, Refused> {
    let profile = &target.profile;
    let mut findings = check::check(profile, facts);
    let weights = model_folder(profile, &facts[0], &mut findings);
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
    if let Some(weights) = weights
        && weights_digest(&weights.files) != target.weights
    {
        findings.push(Finding::error(
            "weights-changed",
            Some(&facts[0].node),
            format!("`{}` is not what release {} was served from", profile.model.path, target.number),
            "put the files back, or deploy anew",
        ));
    }
    let Some(weights) = weights else { return Err(Refused(findings)) };
    group(target.clone(), false, facts, weights, findings)
}

/// What `stop` will do: every container of the deployment ends.
pub fn stop(deployment: &DeploymentName, facts: &[NodeFacts]) -> Plan {
    Plan {
        deployment: deployment.clone(),
        release: None,
        running: running(deployment, facts),
        nodes: facts.iter().map(|facts| facts.node.clone()).collect(),
        stages: stages([(StageKind::Stop, retire(deployment, facts))]),
        differences: Vec::new(),
        last_start_seconds: None,
        endpoint: None,
    }
}

/// The release to go back to from the one that runs: the newest that was deployed before it. Where
/// nothing runs, from the newest there is, also one that never served: what a deploy that was killed
/// or that failed has left is not what to go back past.
pub fn release_before(deployment: &DeploymentName, facts: &[NodeFacts]) -> Option<Release> {
    let last = || facts.iter().flat_map(|facts| &facts.releases).map(|release| release.number).max();
    let current = running(deployment, facts).or_else(last)?;
    newest(facts, |release| release.number < current)
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

/// The plan that makes `release`'s group the one that runs. `new` says that the release has no record yet.
fn group(
    mut release: Release,
    new: bool,
    facts: &[NodeFacts],
    weights: &ModelFolder,
    mut findings: Vec<Finding>,
) -> Result<Planned, Refused> {
    let profile = release.profile.clone();
    let head = &profile.cluster.nodes[0];
    let copies = weights_steps(&profile, facts, weights, &mut findings);
    let images = image_steps(&profile, &release.image, facts);
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(Refused(findings));
    }

    let differences = differences(&release, facts);
    let current = running(&profile.name, facts);
    let recorded = current.and_then(|number| release_numbered(number, facts));
    let in_place = differences.is_empty();
    if in_place {
        // The containers keep the release that they were started for; its record may still be unfinished.
        let number = current.expect("a group without differences runs");
        release = recorded.clone().unwrap_or(Release { number, ..release });
    }
    let endpoint = Endpoint { port: profile.serve.port.get(), model: profile.served_name().to_owned() };
    let finished = release.outcome == Outcome::Deployed;
    let begin = Release {
        outcome: if finished && !new { Outcome::Deployed } else { Outcome::Begun },
        ..release.clone()
    };
    let done = Release { outcome: Outcome::Deployed, ..release.clone() };

    let on_each = |action: &dyn Fn(&Rank) -> Action| -> Vec<Step> {
        release.ranks.iter().map(|rank| Step { node: rank.node.clone(), action: action(rank) }).collect()
    };
    let name = |rank: &Rank| container_name(&profile.name, rank.rank);
    let record = || {
        let armed = |rank: &Rank| {
            let facts = facts.iter().find(|facts| facts.node == rank.node);
            facts.is_some_and(|f| {
                f.containers.iter().any(|c| c.name == name(rank) && c.restart == "unless-stopped")
            })
        };
        let written = |rank: &Rank| {
            let facts = facts.iter().find(|facts| facts.node == rank.node);
            facts.is_some_and(|facts| {
                facts.releases.iter().any(|r| r.number == done.number && r.outcome == done.outcome)
            })
        };
        let mut steps: Vec<_> = release
            .ranks
            .iter()
            .filter(|rank| !in_place || !armed(rank))
            .map(|rank| Step {
                node: rank.node.clone(),
                action: Action::KeepRunning { container: name(rank) },
            })
            .collect();
        // A release that is brought back keeps its record; nodes that lost theirs get it again.
        steps.extend(release.ranks.iter().filter(|rank| !written(rank)).map(|rank| Step {
            node: rank.node.clone(),
            action: Action::WriteRelease { release: Box::new(done.clone()) },
        }));
        steps
    };
    let prove = || {
        let ready = ReadySpec {
            engine: profile.engine.kind,
            endpoint: endpoint.clone(),
            containers: release.ranks.iter().map(|rank| (rank.node.clone(), name(rank))).collect(),
            timeout: profile.ready.timeout,
            stall: profile.ready.stall,
        };
        let step = |action| vec![Step { node: head.name.clone(), action }];
        [
            (StageKind::Ready, step(Action::AwaitReady { ready })),
            (
                StageKind::Verify,
                step(Action::Verify { endpoint: endpoint.clone(), verify: verify(&profile) }),
            ),
        ]
    };

    let mut all = vec![(StageKind::Weights, copies), (StageKind::Image, images)];
    if in_place {
        let record = record();
        if !record.is_empty() {
            all.extend(prove());
            all.push((StageKind::Record, record));
        }
    } else {
        if new {
            all.push((
                StageKind::Begin,
                on_each(&|_| Action::WriteRelease { release: Box::new(begin.clone()) }),
            ));
        }
        all.push((StageKind::Stop, retire(&profile.name, facts)));
        let start = |rank: &Rank| Action::Start {
            deployment: profile.name.clone(),
            release: release.number,
            rank: Box::new(rank.clone()),
        };
        all.push((StageKind::Start, on_each(&start)));
        all.extend(prove());
        all.push((StageKind::Record, record()));
    }
    let plan = Plan {
        deployment: profile.name.clone(),
        release: Some(release.number),
        running: current,
        nodes: profile.cluster.nodes.iter().map(|node| node.name.clone()).collect(),
        stages: stages(all),
        differences,
        last_start_seconds: recorded.and_then(|release| release.figures.start_seconds),
        endpoint: Some(profile.endpoint()),
    };
    Ok(Planned { plan, warnings: findings })
}

/// Stages that have steps.
fn stages(all: impl IntoIterator<Item = (StageKind, Vec<Step>)>) -> Vec<Stage> {
    all.into_iter()
        .filter(|(_, steps)| !steps.is_empty())
        .map(|(kind, steps)| Stage { kind, steps })
        .collect()
}

/// What `verify` asks, less what the engine was not told to do.
fn verify(profile: &Profile) -> crate::profile::Verify {
    crate::profile::Verify {
        chat: profile.verify.chat,
        reasoning: profile.verify.reasoning && profile.engine.reasoning_parser.is_some(),
        tools: profile.verify.tools && profile.engine.tool_parser.is_some(),
    }
}

fn retire(deployment: &DeploymentName, facts: &[NodeFacts]) -> Vec<Step> {
    let steps = facts.iter().flat_map(|facts| {
        facts.ours(deployment).map(|(container, ours)| Step {
            node: facts.node.clone(),
            action: Action::Retire {
                container: container.name.clone(),
                release: ours.release,
                rank: ours.rank,
            },
        })
    });
    steps.collect()
}

/// The image's content: what the head has under the name, else what any node has.
fn image_content(
    profile: &Profile,
    facts: &[NodeFacts],
    findings: &mut Vec<Finding>,
) -> Option<ImageContent> {
    let reference = profile.image.reference.with_tag();
    let found = facts.iter().find_map(|facts| facts.image_named(&reference));
    if found.is_none() {
        findings.push(Finding::error(
            "image-absent",
            None,
            format!("image `{reference}` is on no node"),
            &format!("on {}: docker pull {reference}", facts[0].node),
        ));
    }
    found.map(|image| image.content.clone())
}

fn model_folder<'a>(
    profile: &Profile,
    head: &'a NodeFacts,
    findings: &mut Vec<Finding>,
) -> Option<&'a ModelFolder> {
    let path = &profile.model.path;
    let mut error = |message: String, hint: &str| {
        findings.push(Finding::error("model-absent", Some(&head.node), message, hint));
        None
    };
    match &head.model {
        None => error(format!("there is no folder `{path}`"), "correct `model.path`, or put the model there"),
        Some(model) if !model.dangling.is_empty() => error(
            format!("`{path}` has links that lead nowhere: {}", model.dangling.join(", ")),
            "fetch the model again",
        ),
        Some(model) if !model.files.iter().any(|file| file.path == "config.json") => error(
            format!("`{path}` has no config.json, so it is not a model's folder"),
            "correct `model.path`",
        ),
        Some(model) => Some(model),
    }
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

/// Identity of a model's files without reading them: path, size and modification time of each.
pub fn weights_digest(files: &[ModelFile]) -> String {
    let mut files: Vec<_> = files.iter().collect();
    files.sort();
    let mut hash = Sha256::new();
    for file in files {
        hash.update(format!("{}\0{}\0{}\n", file.path, file.size, file.mtime));
    }
    hex(&hash.finalize())
}

fn weights_steps(
    profile: &Profile,
    facts: &[NodeFacts],
    weights: &ModelFolder,
    findings: &mut Vec<Finding>,
) -> Vec<Step> {
    let head = &profile.cluster.nodes[0];
    let mut steps = Vec::new();
    for (node, facts) in profile.cluster.nodes.iter().zip(facts).skip(1) {
        let have = facts.model.as_ref().map_or(&[][..], |model| &model.files);
        let missing: Vec<_> = weights.files.iter().filter(|file| !have.contains(file)).cloned().collect();
        if missing.is_empty() {
            continue;
        }
        let bytes = missing.iter().map(|file| file.size).sum();
        if let Some(disk) = facts.model_disk
            && disk.free < bytes
        {
            findings.push(Finding::error(
                "disk-model",
                Some(&node.name),
                format!(
                    "{} are to be copied to `{}`, {} are free there",
                    size(bytes),
                    profile.model.path,
                    size(disk.free)
                ),
                "free some space on that file system",
            ));
        }
        steps.push(Step {
            node: node.name.clone(),
            action: Action::CopyWeights {
                from: head.name.clone(),
                from_address: head.fabric,
                to_address: node.fabric,
                path: profile.model.path.clone(),
                files: missing,
                bytes,
            },
        });
    }
    steps
}

fn image_steps(profile: &Profile, image: &RecordedImage, facts: &[NodeFacts]) -> Vec<Step> {
    let holder = |i: &usize| facts[*i].image(&image.content);
    let Some(source) = (0..facts.len()).find(|i| holder(i).is_some()) else { return Vec::new() };
    let source_image = holder(&source).expect("the source has the image");
    let nodes = &profile.cluster.nodes;
    let mut steps = Vec::new();
    for (i, node) in nodes.iter().enumerate() {
        let action = match holder(&i) {
            Some(there) if there.references.contains(&image.content.kept_as()) => continue,
            Some(there) => Action::KeepImage { image: there.id.clone(), content: image.content.clone() },
            None => Action::CopyImage {
                from: nodes[source].name.clone(),
                from_address: nodes[source].fabric,
                to_address: node.fabric,
                image: source_image.id.clone(),
                content: image.content.clone(),
                bytes: source_image.size,
            },
        };
        steps.push(Step { node: node.name.clone(), action });
    }
    steps
}

/// In words, how the group that runs differs from `wanted`'s; empty where it is that group, running whole.
fn differences(wanted: &Release, facts: &[NodeFacts]) -> Vec<String> {
    let mut found = Vec::new();
    let deployment = &wanted.deployment;
    for rank in &wanted.ranks {
        let ours = facts.iter().find(|facts| facts.node == rank.node).and_then(|facts| {
            facts
                .ours(deployment)
                .find(|(container, _)| container.name == container_name(deployment, rank.rank))
        });
        match ours {
            None => found.push(format!("{}: no container of rank {}", rank.node, rank.rank)),
            Some((container, _)) if !container.state.running => {
                found.push(format!(
                    "{}: rank {} does not run ({})",
                    rank.node, rank.rank, container.state.status
                ));
            }
            Some((_, ours)) if ours.spec != rank.spec.digest() => {
                let before = release_numbered(ours.release, facts)
                    .and_then(|release| release.ranks.into_iter().find(|before| before.rank == rank.rank));
                found.extend(match before {
                    Some(before) => super::render::spec_differences(&rank.node, &before.spec, &rank.spec),
                    None => {
                        vec![format!("{}: rank {} runs with another specification", rank.node, rank.rank)]
                    }
                });
            }
            Some(_) => {}
        }
    }
    for facts in facts {
        for (container, ours) in facts.ours(deployment) {
            let wanted_here =
                wanted.ranks.iter().any(|rank| rank.node == facts.node && rank.rank == ours.rank);
            if !wanted_here {
                found.push(format!("{}: {} is not of this group", facts.node, container.name));
            }
        }
    }
    let mut releases: Vec<_> =
        facts.iter().flat_map(|f| f.ours(deployment)).map(|(_, ours)| ours.release).collect();
    releases.sort();
    releases.dedup();
    match releases[..] {
        [one] => {
            if release_numbered(one, facts).is_some_and(|release| release.weights != wanted.weights) {
                found.push("the model's files changed since they were loaded".to_owned());
            }
        }
        [] => {}
        _ => found.push("the ranks are of different releases".to_owned()),
    }
    found
}
