//! What `check` found, for people and for programs: errors first, a healthy topic in one line.

use std::fmt::Write;

use serde_json::{Value, json};

use super::terminal::place_lines;
use crate::check::{CHECKS, Finding, Row, Selection, Severity};
use crate::config::Places;
use crate::fabric::Measured;
use crate::profile::{NodeName, Profile};

/// A link whose speed was measured, while others still are.
pub fn measured_line(measured: &Measured) -> String {
    let Measured { from, to, rate, done, all } = measured;
    let what = match rate {
        // Gb/s with one digit.
        Ok(rate) => {
            let tenths = rate.bytes_per_second / 12_500_000;
            format!("{}.{} Gb/s", tenths / 10, tenths % 10)
        }
        Err(why) => format!("not measured: {why}"),
    };
    format!("measured {done} of {all}: {from} → {to}   {what}")
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Report {
    pub profile: Profile,
    pub findings: Vec<Finding>,
    /// What should be alike on all nodes.
    pub parity: Vec<Row>,
    /// Which checks were wanted.
    pub selection: Selection,
    /// The nodes that answered: of others nothing is claimed.
    pub asked: Vec<NodeName>,
    /// Whether the fabric's speed was measured.
    pub measured: bool,
}

impl Report {
    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// For people. `verbose` also tells of notes, of every check that is well, and of what is alike.
    pub fn text(&self, verbose: bool, places: Option<&Places>) -> String {
        let nodes = self.profile.cluster.nodes.iter().enumerate();
        let nodes: Vec<_> = nodes
            .map(|(rank, node)| format!("{}{}", node.name, if rank == 0 { " (head)" } else { "" }))
            .collect();
        let mut out = format!("{} · {}\n\n", self.profile.name, nodes.join(", "));
        let mut findings: Vec<_> = self.findings.iter().collect();
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let told = |finding: &&Finding| verbose || finding.severity > Severity::Note;
        for finding in findings.into_iter().filter(told) {
            finding_text(&mut out, finding, places);
        }
        self.topics(&mut out, verbose);
        self.parity(&mut out, verbose);
        let _ = writeln!(out, "\n{}", self.summary(verbose));
        out
    }

    /// The last line.
    fn summary(&self, verbose: bool) -> String {
        let checks = self.selection.count();
        let mut parts = vec![format!("{checks} {}", plural(checks, "check"))];
        let (errors, warnings, notes) =
            (self.count(Severity::Error), self.count(Severity::Warning), self.count(Severity::Note));
        if errors + warnings == 0 {
            parts.push("nothing wrong".to_owned());
        }
        for (count, word) in [(errors, "error"), (warnings, "warning"), (notes, "note")] {
            if count > 0 {
                parts.push(format!("{count} {}", plural(count, word)));
            }
        }
        let more = if notes > 0 && !verbose { " (-v shows notes)" } else { "" };
        format!("{}{more}", parts.join(", "))
    }

    fn topics(&self, out: &mut String, verbose: bool) {
        let mut topics = Vec::new();
        for check in CHECKS.iter().filter(|check| self.selection.wants(check.id)) {
            if !topics.contains(&check.topic) {
                topics.push(check.topic);
            }
        }
        for topic in topics {
            let checks: Vec<_> =
                CHECKS.iter().filter(|c| c.topic == topic && self.selection.wants(c.id)).collect();
            let worst = |id: &str| {
                self.findings.iter().filter(|finding| finding.id == id).map(|finding| finding.severity).max()
            };
            let bad = checks.iter().filter(|c| worst(c.id).is_some_and(|worst| worst > Severity::Note));
            let bad: Vec<_> = bad.map(|check| check.id).collect();
            let mark = checks.iter().filter_map(|check| worst(check.id)).max();
            let all = self.asked.len() == self.profile.cluster.nodes.len();
            let what = match (bad.is_empty(), self.asked.is_empty()) {
                (false, _) => bad.join(", "),
                (true, true) => "not examined: no node could be asked".to_owned(),
                (true, false) if !all => {
                    let asked: Vec<_> = self.asked.iter().map(ToString::to_string).collect();
                    format!("{} {}, {} only", checks.len(), plural(checks.len(), "check"), asked.join(", "))
                }
                (true, false) => format!("{} {}", checks.len(), plural(checks.len(), "check")),
            };
            let _ = writeln!(out, "  {} {topic:<8} {what}", sign(mark, !self.asked.is_empty()));
            for check in checks.iter().filter(|_| verbose) {
                let by_measuring = matches!(check.id, "fabric-slow" | "fabric-slower" | "fabric-figures");
                let sign = sign(worst(check.id), all && (self.measured || !by_measuring));
                let _ = writeln!(out, "      {sign} {:<22} {}", check.id, check.expected);
            }
        }
    }

    fn parity(&self, out: &mut String, verbose: bool) {
        let rows: Vec<_> = self.parity.iter().filter(|row| verbose || row.differs()).collect();
        let Some(first) = rows.first().filter(|row| row.values.len() > 1) else { return };
        let cell = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        let names: Vec<_> = first.values.iter().map(|(node, _)| node.to_string()).collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| cell(&row.values[column].1).chars().count());
            cells.chain([names[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..names.len()).map(width).collect();
        let line = |out: &mut String, mark: &str, what: &str, cells: Vec<String>| {
            let cells: Vec<_> = cells
                .iter()
                .zip(&widths)
                .map(|(cell, width)| {
                    format!("{cell}{}", " ".repeat(width.saturating_sub(cell.chars().count())))
                })
                .collect();
            let _ = writeln!(out, "{}", format!("  {mark} {what:<8} {}", cells.join("  ")).trim_end());
        };
        let _ = writeln!(out, "\n  the nodes side by side");
        line(out, " ", "", names.clone());
        for row in rows {
            let mark = if row.differs() { "≠" } else { " " };
            line(out, mark, row.what, row.values.iter().map(|(_, value)| cell(value)).collect());
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let checks: Vec<_> = CHECKS.iter().filter(|check| self.selection.wants(check.id)).collect();
        let checks: Vec<_> = checks.iter().map(|check| check.id).collect();
        let parity = self.parity.iter().map(|row| {
            let values = row.values.iter().map(|(node, value)| (node.to_string(), json!(value)));
            let values: serde_json::Map<_, _> = values.collect();
            json!({ "what": row.what, "differs": row.differs(), "values": values })
        });
        let parity: Vec<_> = parity.collect();
        json!({ "check": {
            "deployment": self.profile.name,
            "checks": checks,
            "asked": self.asked,
            "measured": self.measured,
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "notes": self.count(Severity::Note),
            "findings": self.findings,
            "parity": parity,
        } })
    }
}

/// What is not known, as not all nodes could be asked, is not well.
fn sign(worst: Option<Severity>, examined: bool) -> &'static str {
    match worst {
        Some(Severity::Error) => "✗",
        Some(Severity::Warning) => "!",
        Some(Severity::Note) => "✓",
        None => {
            if examined {
                "✓"
            } else {
                "·"
            }
        }
    }
}

fn finding_text(out: &mut String, finding: &Finding, places: Option<&Places>) {
    let check = crate::check::of(finding.id);
    let _ = writeln!(out, "{}: {finding}", finding.severity);
    for line in place_lines(finding, places) {
        let _ = writeln!(out, "{line}");
    }
    if let Some(check) = check.filter(|_| finding.severity > Severity::Note) {
        let _ = writeln!(out, "  expected: {}", check.expected);
        let _ = writeln!(out, "  why:      {}", check.why);
    }
    if let Some(hint) = &finding.hint {
        let _ = writeln!(out, "  hint:     {hint}");
    }
    out.push('\n');
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
