//! The engine in the image: whether it has what the profile asks for, by its version.

use super::{Finding, Seen, Severity, content};
use crate::engine::rules;

pub(super) fn check(seen: &Seen, findings: &mut Vec<Finding>) {
    let Some(content) = content(seen.profile, seen.facts()) else { return };
    let mut images = seen.facts().filter_map(|facts| facts.image(content));
    let Some(software) = images.find_map(|image| image.software.as_ref()) else { return };
    findings.extend(rules::judge(seen.profile, software).into_iter().map(|ruled| {
        let severity = if ruled.refused { Severity::Error } else { Severity::Warning };
        Finding::new(severity, ruled.id, None, ruled.message, &ruled.hint).at(ruled.path)
    }));
}
