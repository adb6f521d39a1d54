//! The catalogue of failures: by which line each is known, what it means and what to do. Pure.
//!
//! A new failure is a new row here, in the file of its theme, and nothing else. Of the rows that
//! match a line the first one counts, so what is harmless stands first and what merely points
//! elsewhere last. Patterns ignore case and match anywhere in a line.

mod architecture;
mod benign;
mod container;
mod memory;
mod model;
mod network;
mod prelude;
mod ray;
mod sglang;
mod wrapper;

use std::sync::LazyLock;

use regex::bytes::{RegexSet, RegexSetBuilder};
use regex::{Regex, RegexBuilder};

/// One way to fail, known by a line.
#[derive(Debug)]
pub struct Signature {
    /// Name of the failure; rows for other wordings of one failure share it.
    pub id: &'static str,
    /// What a match is worth.
    pub severity: Severity,
    /// Regular expression; its groups may be put into the texts.
    pub pattern: &'static str,
    /// What went wrong; `{1}` is the first group.
    pub cause: &'static str,
    /// What to do about it, in one line.
    pub hint: &'static str,
    /// Upstream threads about it; `own` if it was met in a test only.
    pub reference: &'static str,
    /// Lines that match, as engines print them.
    pub examples: &'static [&'static str],
}

/// What a match is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It may be the cause.
    Root(Class),
    /// It only says that something failed elsewhere; never the cause.
    Wrapper,
    /// It also stands in the logs of healthy starts; the line is ignored.
    Benign,
}

/// What a cause is about. Of causes within one second the lesser class counts: what is nearer to
/// the machine brings down what stands upon it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The kernel or the GPU's driver.
    Kernel,
    /// Docker and the container's limits.
    Container,
    /// GPU architecture, kernels, driver versions.
    Architecture,
    /// Model files, image and arguments.
    Model,
    /// Memory.
    Memory,
    /// A process that was killed without a word.
    Death,
    /// Addresses, NCCL, Gloo, RDMA.
    Network,
    /// Ray and the engine's processes.
    Executor,
    /// Somebody waits for something: a cause only where nothing else is one.
    Waiting,
}

/// Name of the failure of a command that ran ahead of the engine.
pub(super) const BEFORE_FAILED: &str = "BEFORE-FAILED";

/// All rows, in the order in which they are tried.
pub fn all() -> impl Iterator<Item = &'static Signature> {
    [
        benign::SIGNATURES,
        prelude::SIGNATURES,
        container::SIGNATURES,
        architecture::SIGNATURES,
        model::SIGNATURES,
        memory::SIGNATURES,
        network::SIGNATURES,
        ray::SIGNATURES,
        sglang::SIGNATURES,
        wrapper::SIGNATURES,
    ]
    .into_iter()
    .flatten()
}

/// The first row that matches the line.
pub fn find(line: &str) -> Option<&'static Signature> {
    static SET: LazyLock<RegexSet> = LazyLock::new(|| {
        RegexSetBuilder::new(all().map(|signature| signature.pattern))
            .case_insensitive(true)
            // On bytes, and with room for its automaton: many times as fast over a long log.
            .unicode(false)
            .dfa_size_limit(1 << 25)
            .build()
            .expect("the catalogue holds regexes")
    });
    all().nth(SET.matches(line.as_bytes()).iter().next()?)
}

impl Signature {
    /// The cause, with what the line says put in.
    pub fn cause_in(&self, line: &str) -> String {
        self.fill(self.cause, line)
    }

    /// The hint, with what the line says put in.
    pub fn hint_in(&self, line: &str) -> String {
        self.fill(self.hint, line)
    }

    /// Where in the line the match begins, in bytes.
    pub fn place_in(&self, line: &str) -> usize {
        self.regex().find(line).map_or(0, |found| found.start())
    }

    fn fill(&self, text: &str, line: &str) -> String {
        let Some(captures) = text.contains('{').then(|| self.regex()).and_then(|regex| regex.captures(line))
        else {
            return text.to_owned();
        };
        captures.iter().enumerate().skip(1).fold(text.to_owned(), |text, (group, found)| {
            text.replace(&format!("{{{group}}}"), found.map_or("?", |found| found.as_str()))
        })
    }

    fn regex(&self) -> Regex {
        RegexBuilder::new(self.pattern).case_insensitive(true).build().expect("the catalogue holds regexes")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_is_the_first_for_its_examples() {
        for signature in all() {
            assert!(!signature.examples.is_empty(), "{} has no example", signature.id);
            for example in signature.examples {
                let found =
                    find(example).unwrap_or_else(|| panic!("{}: nothing matches `{example}`", signature.id));
                assert!(
                    std::ptr::eq(found, signature),
                    "`{example}` of {} is {} (`{}`)",
                    signature.id,
                    found.id,
                    found.pattern
                );
                for text in [signature.cause_in(example), signature.hint_in(example)] {
                    assert!(!text.contains(['{', '}', '?']), "{}: {text}", signature.id);
                }
            }
        }
    }

    #[test]
    fn every_row_is_written_in_the_same_manner() {
        let patterns: HashSet<_> = all().map(|signature| signature.pattern).collect();
        assert_eq!(patterns.len(), all().count(), "a pattern stands twice");
        for Signature { id, severity, cause, hint, reference, .. } in all() {
            assert!(id.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-'), "{id}");
            assert!(!cause.is_empty() && !reference.is_empty(), "{id}");
            assert_eq!(hint.is_empty(), *severity == Severity::Benign, "{id}");
            for text in [cause, hint] {
                assert!(text.len() < 240 && !text.contains('\n') && !text.ends_with('.'), "{id}: {text}");
            }
        }
    }
}
