//! Files that nobody would write by hand, and any text at all.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

#[test]
fn aliases_work_and_cannot_blow_up() {
    let text = edited(&[
        ("reasoning_parser: qwen3\n", "reasoning_parser: &parser qwen3\n"),
        ("qwen3_coder", "*parser"),
    ]);
    assert_eq!(parse("x", &text).unwrap().engine.tool_parser.as_deref(), Some("qwen3"));

    let mut laughs = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    let mut chain = "a0: &a0 [x]\n".to_owned();
    for level in 1..60 {
        let last = level - 1;
        let nine = vec![format!("*a{last}"); 9].join(", ");
        writeln!(laughs, "a{level}: &a{level} [{nine}]").unwrap();
        writeln!(chain, "a{level}: &a{level} [*a{last}]").unwrap();
    }
    for (text, message) in [
        (laughs.as_str(), "this file has more than 100000 values"),
        (chain.as_str(), "nested more than 32 levels deep"),
        ("a: &a [*a]\n", "an alias cannot refer to a value that it is a part of"),
        ("a: &a 1\n*a : 2\n", "a key has to be text, not an alias"),
        ("[a, b]: 2\n", "a key has to be text, not a list or a section"),
    ] {
        assert_eq!(error(text).problems()[0].message, message);
    }
}

#[test]
fn nothing_of_the_file_reaches_the_terminal_raw() {
    let long = format!("{}: 1\n", "k".repeat(300_000));
    let hidden = "\"\\e[31mred\\u202e\": 1\n\u{202e}x: \"\u{200b}\"\n";
    for text in [long.as_str(), hidden] {
        let report = error(text).to_string();
        assert!(report.lines().all(|line| line.chars().count() < 600), "{}", report.len());
        assert!(!report.contains(['\u{1b}', '\u{202e}', '\u{200b}']), "{report}");
    }
}

#[test]
fn large_and_deep_files_end_in_an_error() {
    for unit in ["[", "{a: ", "- ", "? ", "a: ", "&a [", "\"", "a:\n ", "!", "*", "|\n", "- - "] {
        error(&unit.repeat(20_000));
    }
    let indented: String = (0..500).fold(String::new(), |text, level| text + &" ".repeat(level) + "a:\n");
    assert_eq!(error(&indented).problems()[0].message, "nested more than 32 levels deep");
    error(&"x".repeat(extend::LONGEST + 1));
    let many: String = (0..5000).fold(String::new(), |text, number| text + &format!("key{number}: 1\n"));
    let report = error(&many).to_string();
    assert!(report.lines().count() < 400, "{}", report.lines().count());
}

/// Takes any text, and holds what every answer has to hold.
fn survives(text: &str) {
    if let Err(error) = parse("x.yaml", text) {
        assert!(!error.problems().is_empty());
        let lines = source::lines(text.strip_prefix('\u{feff}').unwrap_or(text)).len();
        for mistake in error.problems() {
            assert!(
                mistake.line.is_none_or(|line| (1..=lines).contains(&line)),
                "{mistake:?} of {lines} lines"
            );
            assert!(!mistake.message.is_empty());
        }
        let report = error.to_string();
        assert!(
            report.ends_with(" error") || report.ends_with(" errors") || report.ends_with("shown"),
            "{report}"
        );
    }
}

#[test]
fn places_stay_in_the_file() {
    for text in ["? ", "a:", "a: [", "{", "a: \"", "- ", "a: |", "a: &x", "a: !x", "---", "a: b: c"] {
        survives(text);
    }
}

proptest! {
    #[test]
    fn any_text_has_an_answer(text in any::<String>()) {
        survives(&text);
    }

    #[test]
    fn any_text_of_yaml_signs_has_an_answer(text in "[ab1 \\t\\n\\r:,\\-\\[\\]{}#&*!|>'\"%@`?~<=.é]{0,120}") {
        survives(&text);
    }

    #[test]
    fn any_edit_of_a_profile_has_an_answer(edits in prop::collection::vec((0_usize..28, 0_usize..28, 0..6), 1..5)) {
        let mut lines: Vec<String> = GOOD.lines().map(str::to_owned).collect();
        for (line, other, edit) in edits {
            let (line, other) = (line % lines.len(), other % lines.len());
            match edit {
                0 if lines.len() > 1 => drop(lines.remove(line)),
                1 => lines.insert(line, lines[line].clone()),
                2 => lines[line] = lines[line].replacen(':', "x:", 1),
                3 => lines.swap(line, other),
                4 => lines[line].insert_str(0, "  "),
                _ => lines[line] = lines[line].chars().take(other).collect(),
            }
        }
        survives(&(lines.join("\n") + "\n"));
    }
}
