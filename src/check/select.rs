//! Which checks are wanted: `--only` and `--skip`.

use std::collections::BTreeSet;

use super::{CHECKS, Finding, of};

/// Which checks count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// None: all.
    only: Option<BTreeSet<&'static str>>,
    skip: BTreeSet<&'static str>,
}

/// A name that no check has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no check `{name}`")]
pub struct UnknownCheck {
    pub name: String,
    /// The one that was probably meant.
    pub near: Option<&'static str>,
}

impl Selection {
    /// `only` and `skip` are ids of checks, or topics.
    pub fn new(only: &[String], skip: &[String]) -> Result<Self, UnknownCheck> {
        let only = if only.is_empty() { None } else { Some(ids(only)?) };
        Ok(Self { only, skip: ids(skip)? })
    }

    /// Whether findings of this check are wanted.
    pub fn wants(&self, id: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(id)) && !self.skip.contains(id)
    }

    /// Whether a finding is to be told: also that a node or its Docker could not be asked, as nothing else is known then.
    pub fn tells(&self, finding: &Finding) -> bool {
        let rests_on = |check: &super::Check| check.vital && matches!(check.topic, "ssh" | "docker");
        self.wants(finding.id) || of(finding.id).is_some_and(rests_on)
    }

    /// How many checks are wanted.
    pub fn count(&self) -> usize {
        CHECKS.iter().filter(|check| self.wants(check.id)).count()
    }

    /// What is skipped, in order.
    pub fn skipped(&self) -> Vec<String> {
        self.skip.iter().map(|id| (*id).to_owned()).collect()
    }
}

fn ids(names: &[String]) -> Result<BTreeSet<&'static str>, UnknownCheck> {
    let mut ids = BTreeSet::new();
    for name in names {
        let of_name = CHECKS.iter().filter(|check| check.id == name || check.topic == name);
        let of_name: Vec<_> = of_name.map(|check| check.id).collect();
        if of_name.is_empty() {
            let names = CHECKS.iter().flat_map(|check| [check.id, check.topic]);
            let near = names.map(|known| (strsim::damerau_levenshtein(name, known), known)).min();
            let near = near.filter(|(distance, known)| *distance <= known.len() / 3).map(|(_, known)| known);
            return Err(UnknownCheck { name: name.clone(), near });
        }
        ids.extend(of_name);
    }
    Ok(ids)
}

/// The findings but those of checks that are skipped. Without a vital one nothing can be deployed: it stays.
pub(crate) fn without_skipped(findings: Vec<Finding>, skipped: &[String]) -> Vec<Finding> {
    let stays = |finding: &Finding| {
        !skipped.iter().any(|id| id == finding.id) || of(finding.id).is_none_or(|check| check.vital)
    };
    findings.into_iter().filter(stays).collect()
}
