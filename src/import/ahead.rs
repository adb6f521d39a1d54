//! What a script does ahead of the engine, as commands of the profile.
//!
//! A simple command becomes one by itself. What a condition or a loop decides stays as it stands in the script, for one
//! shell: taken apart, it would run always, or end the start where the script goes on.

use super::command::{Call, assignment, assignments, variable};
use super::report::Report;
use super::shell::{self, Command};

/// Commands that change nothing but the shell that runs them.
const OF_THE_SHELL: &[&str] =
    &["cd", "source", ".", "ulimit", "unset", "alias", "trap", "shopt", "umask", "set", "pushd", "popd"];

/// Words that open a part of a script, and those that close it.
const PAIRS: &[(&str, &str)] = &[("if", "fi"), ("case", "esac"), ("do", "done"), ("{", "}")];

/// Carries `commands` of `script`, which stand ahead of the engine.
pub(super) fn ahead(script: &str, commands: &[Command], call: &mut Call, report: &mut Report) {
    let mut chains: Vec<&[Command]> = chains(commands);
    if let Some(last) = chains.pop_if(|chain| chain.last().is_some_and(|last| last.operator == "||")) {
        let why = "the engine would start only where it fails, and sparkctl starts it always";
        report.lose(last[0].line(), slice(script, last), why);
    }
    let first = chains.iter().position(|chain| needs_shell(chain)).unwrap_or(chains.len());
    let behind = chains.iter().rposition(|chain| needs_shell(chain)).map_or(first, |last| last + 1);
    chains[..first].iter().copied().flatten().for_each(|command| simple(command, call, report));
    if first < behind {
        whole(script, &chains[first..behind], call, report);
    }
    chains[behind..].iter().copied().flatten().for_each(|command| simple(command, call, report));
}

/// The commands in groups that `&&` and `||` join.
fn chains(commands: &[Command]) -> Vec<&[Command]> {
    commands.chunk_by(|command, _| command.is_joined()).collect()
}

/// Whether a chain, taken apart, would do something else. One that goes on to the engine by `&&` alone would not: a
/// command that fails ends the start either way.
fn needs_shell(chain: &[Command]) -> bool {
    let Some((last, others)) = chain.split_last() else { return false };
    let decides = |command: &Command| {
        let is_setting = assignments(command).is_some() || command.first() == "export";
        !is_setting && !OF_THE_SHELL.contains(&command.first())
    };
    chain.iter().any(shell::is_control)
        || others.iter().any(|command| command.operator == "||")
        || (last.operator != "&&" && others.iter().any(decides))
}

fn slice<'a>(script: &'a str, commands: &[Command]) -> &'a str {
    match commands {
        [first, .., last] => script[first.place.start..last.place.end].trim(),
        [only] => script[only.place.clone()].trim(),
        [] => "",
    }
}

/// A part of the script for one shell.
fn whole(script: &str, chains: &[&[Command]], call: &mut Call, report: &mut Report) {
    let (Some([first, ..]), Some([ends_first, .., last] | [ends_first @ last])) =
        (chains.first(), chains.last())
    else {
        return;
    };
    let text = script[first.place.start..last.place.end].trim();
    if is_open(text) {
        let why = "the engine stands within it, and sparkctl starts it always";
        return report.lose(first.line(), text, why);
    }
    let why = "it holds only in the commands ahead of the engine: if the engine needs it, write it into `engine.env`";
    for command in chains.iter().copied().flatten() {
        // `then export A=1` too.
        let begin =
            command.words.iter().position(|word| !["then", "else", "do", "{"].contains(&word.text.as_str()));
        let words = &command.words[begin.unwrap_or(0)..];
        let inner = Command { words: words.to_vec(), ..command.clone() };
        if !words.is_empty() && (inner.first() == "export" || assignments(&inner).is_some()) {
            report.lose(command.line(), &command.raw, why);
        } else if OF_THE_SHELL.contains(&inner.first()) && inner.first() != "set" {
            report.lose(command.line(), &command.raw, "it changes only the shell that it runs in");
        }
    }
    // `[ -f x ] && cp x y` without `x` is no failure: the script goes on, and so does the start.
    let goes_on = last.operator != "&&"
        && chains.iter().any(|chain| chain.len() > 1)
        && !["fi", "done", "esac"].contains(&ends_first.first());
    call.before.push(bash(&if goes_on { format!("{text}\ntrue") } else { text.to_owned() }));
}

/// Whether a part of a script opens more than it closes.
fn is_open(text: &str) -> bool {
    let code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let words: Vec<&str> =
        code.flat_map(|line| line.split(|c: char| c.is_whitespace() || c == ';')).collect();
    let count = |name: &str| words.iter().filter(|word| **word == name).count();
    PAIRS.iter().any(|(opens, closes)| count(opens) > count(closes))
}

fn simple(command: &Command, call: &mut Call, report: &mut Report) {
    let first = command.first();
    if let Some(set) = assignments(command) {
        for (name, word) in set {
            variable(name, word, call, report);
        }
    } else if first == "export" {
        report.spare(command.line(), &command.raw, "every variable of a container is exported");
    } else if first == "set" && command.words[1..].iter().all(|word| word.text.contains(['e', 'x', 'u'])) {
        report.spare(command.line(), &command.raw, "a command ahead of the engine that fails ends the start");
    } else if OF_THE_SHELL.contains(&first) {
        report.lose(command.line(), &command.raw, "it changes only the shell that it runs in");
    } else if ["true", ":", "wait"].contains(&first) {
        report.spare(command.line(), &command.raw, "it does nothing");
    } else if command.is_plain() && command.words.first().and_then(assignment).is_none() {
        call.before.push(command.words.iter().map(|word| word.text.clone()).collect());
    } else {
        call.before.push(bash(&command.raw));
    }
}

/// A shell that runs `script`.
pub(super) fn bash(script: &str) -> Vec<String> {
    ["bash", "-c", script].map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::command;
    use super::*;

    fn found(script: &str) -> (Call, Report) {
        let mut report = Report::default();
        let call = command::find(script, 1, &BTreeMap::new(), &mut report)
            .unwrap_or_else(|error| panic!("{script}: {error}"));
        (call, report)
    }

    #[test]
    fn what_a_condition_decides_stays_one_script() {
        for (ahead, kept) in [
            ("[ -f x ] && cp x y\n", "[ -f x ] && cp x y\ntrue"),
            ("[[ -f x ]] && cp x y; ", "[[ -f x ]] && cp x y\ntrue"),
            ("grep -q a x &&\n  cp x y\n", "grep -q a x &&\n  cp x y\ntrue"),
            ("a && b || c\n", "a && b || c\ntrue"),
            ("a && b || c && ", "a && b || c"),
            ("[[ -f x ]] && ", "[[ -f x ]]"),
            ("! a && b\n", "! a && b\ntrue"),
            ("(cd x && make)\n", "(cd x && make)\ntrue"),
            ("[ -f x ] && { cp x y; }\n", "[ -f x ] && { cp x y; }\ntrue"),
            ("if A && B; then\n  cp x y\nfi\n", "if A && B; then\n  cp x y\nfi"),
            ("if a | grep b; then c; fi\n", "if a | grep b; then c; fi"),
            ("for i in 1 2; do a $i; done\n", "for i in 1 2; do a $i; done"),
            ("case $X in\n  a) b ;;\n  *) c ;;\nesac\n", "case $X in\n  a) b ;;\n  *) c ;;\nesac"),
        ] {
            let (call, _) = found(&format!("export A=1\nfirst\n{ahead}vllm serve m"));
            assert_eq!(call.before, [vec!["first"], vec!["bash", "-c", kept]], "{ahead}");
            assert_eq!(call.env.len(), 1, "{ahead}");
        }
    }

    #[test]
    fn simple_commands_stay_by_themselves() {
        for script in
            ["a x && b && vllm serve m", "a x; b\nvllm serve m", "export A=1 && a x\nb\nvllm serve m"]
        {
            let (call, report) = found(script);
            assert_eq!(call.before, [vec!["a", "x"], vec!["b"]], "{script}");
            assert_eq!(report.not_carried, [], "{script}");
        }
    }

    #[test]
    fn what_does_not_reach_the_engine_is_told() {
        for (script, told) in [
            ("[ -f x ] && export A=1\nvllm serve m", "export A=1"),
            ("if a; then\n  B=1\nfi\nvllm serve m", "B=1"),
            ("a || vllm serve m", "a"),
            ("if a; then\n  vllm serve m", "if a; then"),
        ] {
            let (call, report) = found(script);
            assert!(call.env.is_empty(), "{script}");
            assert_eq!(report.not_carried.first().map(|item| item.what.as_str()), Some(told), "{script}");
        }
    }
}
