//! From a recipe's script to the one command that is the engine: what it is told, what goes ahead of it.

use std::collections::BTreeMap;

use crate::profile::EngineKind;

use super::ahead::ahead;
use super::recipe::Placed;
use super::report::{Refused, Report};
use super::shell::{self, Command, Word};

/// The engine as a recipe starts it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) kind: EngineKind,
    /// The words behind the engine's name.
    pub(super) words: Vec<Word>,
    /// Variables that the script sets.
    pub(super) env: Vec<(String, Placed)>,
    /// What runs ahead of the engine.
    pub(super) before: Vec<Vec<String>>,
}

/// Finds the engine in `script`, whose first line is `line` of the file. `env` has the variables that are known.
pub(super) fn find(
    script: &str,
    line: usize,
    env: &BTreeMap<String, String>,
    report: &mut Report,
) -> Result<Call, Refused> {
    let mut known = env.clone();
    let mut commands = shell::commands(script, line, &known);
    // A variable may be set from one that was set above it.
    for _ in 0..4 {
        let set = commands.iter().filter_map(assignments).flatten().filter(|(_, word)| word.shell.is_none());
        let set: Vec<_> = set.map(|(name, word)| (name, word.text)).collect();
        let before = known.len();
        known.extend(set);
        commands = shell::commands(script, line, &known);
        if known.len() == before {
            break;
        }
    }
    let Some((at, (behind, kind))) =
        commands.iter().enumerate().find_map(|(at, command)| Some((at, engine(&command.words)?)))
    else {
        return nested(script, &commands, env, report).unwrap_or_else(|| Err(no_engine(&commands, line)));
    };
    let mut call = Call { kind, words: Vec::new(), env: Vec::new(), before: Vec::new() };
    ahead(script, &commands[..at], &mut call, report);
    let engine = &commands[at];
    wrapper(&engine.words[..behind - length(kind, &engine.words[..behind])], &mut call, report);
    call.words = engine.words[behind..].to_vec();
    lose_rest(engine, report);
    for command in &commands[at + 1..] {
        if super::flags::is_flag(command.first()) {
            report.ask(format!(
                "line {}: the command ends above it, at an empty line or a comment, and `{}` was read as its \
                 continuation: see whether that is meant",
                command.line(),
                command.first()
            ));
            call.words.extend(command.words.iter().cloned());
            lose_rest(command, report);
        } else {
            report.lose(command.line(), &command.raw, "it stands behind the engine, which does not end");
        }
    }
    Ok(call)
}

/// How many of the words name the engine.
fn length(kind: EngineKind, words: &[Word]) -> usize {
    let last = words.last().map_or("", |word| &word.text);
    match (kind, last) {
        (_, "serve") => 2,
        _ => 3,
    }
}

/// Where the words of the engine begin to be its own, and which engine it is.
fn engine(words: &[Word]) -> Option<(usize, EngineKind)> {
    if ["echo", "printf", "which", "pip", "pip3"].contains(&words.first()?.text.as_str()) {
        return None;
    }
    (0..words.len()).find_map(|at| {
        let text = |index: usize| words.get(index).map_or("", |word| word.text.as_str());
        let name = text(at).rsplit('/').next().unwrap_or("");
        match (name, text(at + 1), text(at + 2)) {
            ("vllm", "serve", _) => Some((at + 2, EngineKind::Vllm)),
            ("sglang", "serve", _) => Some((at + 2, EngineKind::Sglang)),
            (python, "-m", "vllm.entrypoints.openai.api_server") if python.starts_with("python") => {
                Some((at + 3, EngineKind::Vllm))
            }
            (python, "-m", "sglang.launch_server") if python.starts_with("python") => {
                Some((at + 3, EngineKind::Sglang))
            }
            _ => None,
        }
    })
}

/// A whole script in quotes: `bash -c "... vllm serve ..."`.
fn nested(
    script: &str,
    commands: &[Command],
    env: &BTreeMap<String, String>,
    report: &mut Report,
) -> Option<Result<Call, Refused>> {
    let (at, inner) = commands.iter().enumerate().find_map(|(at, command)| {
        let shell = command.words.iter().position(|word| {
            ["bash", "sh"].contains(&word.text.rsplit('/').next().unwrap_or("")) && word.shell.is_none()
        })?;
        let option = command.words.get(shell + 1)?;
        let inner = command.words.get(shell + 2)?;
        let runs = option.text.starts_with('-') && option.text.ends_with('c');
        (runs && inner.text.contains("serve")).then_some((at, inner.clone()))
    })?;
    let mut call = match find(&inner.text, inner.line, env, report) {
        Ok(call) => call,
        Err(refused) => return Some(Err(refused)),
    };
    let mut outer = Call { kind: call.kind, words: Vec::new(), env: Vec::new(), before: Vec::new() };
    ahead(script, &commands[..at], &mut outer, report);
    outer.before.append(&mut call.before);
    outer.env.append(&mut call.env);
    outer.words = call.words;
    for command in &commands[at + 1..] {
        report.lose(command.line(), &command.raw, "it stands behind the engine, which does not end");
    }
    Some(Ok(outer))
}

fn no_engine(commands: &[Command], line: usize) -> Refused {
    let Some(last) = commands.iter().rev().find(|command| !command.words.is_empty()) else {
        return Refused::new(line, "the command is empty");
    };
    let raw = last.raw.lines().next().unwrap_or("").trim_end_matches(['\\', ' ']);
    let shown: String = raw.chars().take(80).collect();
    let message = format!("the command starts no engine that sparkctl has: `{shown}`");
    Refused::new(last.line(), message)
        .hint("sparkctl serves with vLLM (`vllm serve`) and SGLang (`sglang serve`)")
}

/// `export A=b`, `A=b`: names and values; nothing where the command is something else.
pub(super) fn assignments(command: &Command) -> Option<Vec<(String, Word)>> {
    let words = if command.first() == "export" { &command.words[1..] } else { &command.words[..] };
    words.iter().map(assignment).collect()
}

pub(super) fn assignment(word: &Word) -> Option<(String, Word)> {
    let (name, value) = word.text.split_once('=')?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    is_name.then(|| (name.to_owned(), Word { text: value.to_owned(), ..word.clone() }))
}

pub(super) fn variable(name: String, word: Word, call: &mut Call, report: &mut Report) {
    match word.shell {
        Some(shell) => {
            let why =
                format!("`{shell}` is known only in the container: write the whole value into `engine.env`");
            report.lose(word.line, format!("{name}={}", word.text), why);
        }
        None => call.env.push((name, Placed { text: word.text, line: word.line })),
    }
}

/// What stands ahead of the engine in its own command.
fn wrapper(words: &[Word], call: &mut Call, report: &mut Report) {
    let mut others = Vec::new();
    for word in words {
        match assignment(word) {
            Some((name, value)) if others.is_empty() => variable(name, value, call, report),
            _ if ["exec", "env", "nohup"].contains(&word.text.as_str()) => {}
            _ => others.push(word.text.as_str()),
        }
    }
    if let Some(first) = words.iter().find(|word| others.first() == Some(&word.text.as_str())) {
        report.lose(
            first.line,
            others.join(" "),
            "sparkctl starts the engine itself, and not under another program",
        );
    }
}

fn lose_rest(command: &Command, report: &mut Report) {
    for rest in &command.rest {
        report.lose(command.line(), rest, "the engine runs by itself, and its output is the container's log");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(script: &str) -> (Call, Report) {
        let mut report = Report::default();
        let env = [("KNOWN".to_owned(), "k".to_owned())].into();
        let call = find(script, 1, &env, &mut report).unwrap_or_else(|error| panic!("{script}: {error}"));
        (call, report)
    }

    fn texts(words: &[Word]) -> Vec<&str> {
        words.iter().map(|word| word.text.as_str()).collect()
    }

    #[test]
    fn every_way_to_start_an_engine() {
        for (script, kind) in [
            ("vllm serve m", EngineKind::Vllm),
            ("/usr/bin/vllm serve m", EngineKind::Vllm),
            ("python3 -m vllm.entrypoints.openai.api_server m", EngineKind::Vllm),
            ("exec vllm serve m", EngineKind::Vllm),
            ("python -m sglang.launch_server m", EngineKind::Sglang),
            ("sglang serve m", EngineKind::Sglang),
            ("bash -c 'vllm serve m'", EngineKind::Vllm),
            ("bash -lc \"exec vllm serve m\"", EngineKind::Vllm),
        ] {
            let (call, report) = found(script);
            assert_eq!((call.kind, texts(&call.words)), (kind, vec!["m"]), "{script}");
            assert_eq!(report, Report::default(), "{script}");
        }
    }

    #[test]
    fn other_engines_are_refused() {
        for (script, told) in [
            ("llama-server -hf m", "llama-server"),
            ("# start\nuvicorn server:app", "uvicorn"),
            ("echo vllm serve", "echo"),
            ("", "empty"),
        ] {
            let refused = find(script, 7, &BTreeMap::new(), &mut Report::default()).expect_err("no engine");
            assert!(refused.message.contains(told), "{script}: {refused}");
            assert!(refused.line.is_some_and(|line| line >= 7));
        }
    }

    #[test]
    fn what_stands_ahead() {
        let script = "set -e\nX=1 mkdir y\nexport A=1 B=\"$A-$KNOWN\"\nexport PATH=/x:$PATH\npip install x\n\
                      cat a > b && cd /tmp\nC=3 taskset -c 5-9 D=4 vllm serve m 2>&1 | tee log\necho end";
        let (call, report) = found(script);
        let env: Vec<_> = call.env.iter().map(|(name, value)| (name.as_str(), value.text.as_str())).collect();
        assert_eq!(env, [("A", "1"), ("B", "1-k"), ("C", "3")]);
        assert_eq!(
            call.before,
            [
                vec!["bash", "-c", "X=1 mkdir y"],
                vec!["pip", "install", "x"],
                vec!["bash", "-c", "cat a > b && cd /tmp\ntrue"]
            ]
        );
        let lost: Vec<_> = report.not_carried.iter().map(|item| (item.line, item.what.as_str())).collect();
        assert_eq!(
            lost,
            [
                (Some(4), "PATH=/x:$PATH"),
                (Some(6), "cd /tmp"),
                (Some(7), "taskset -c 5-9 D=4"),
                (Some(7), "2>&1"),
                (Some(7), "| tee log"),
                (Some(8), "echo end"),
            ]
        );
    }

    #[test]
    fn a_command_that_ends_too_early_goes_on() {
        let (call, report) = found("vllm serve m \\\n  --a \\\n\n  --b 1 \\\n  # --c\n  --d");
        assert_eq!(texts(&call.words), ["m", "--a", "--b", "1", "--d"]);
        assert_eq!(report.to_do.len(), 2);
    }
}
