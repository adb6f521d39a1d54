//! Prompts: lengths, marks, and files.

use crate::bench::prompts::{Conversation, Prompts, Script, Text, read};
use crate::bench::workload::{Length, Workload};

fn script(workload: &Workload, text: &Text, mark: &str, place: u64) -> Script {
    Prompts { workload, text, mark }.script(place)
}

#[test]
fn the_same_seed_sends_the_same_but_for_the_mark() {
    let text = Text::by_length(0.25, 30.0);
    let workload =
        Workload { input: Length { least: 50, most: 400 }, turns: 3, seed: 5, ..Workload::default() };
    let first = script(&workload, &text, "aaaa", 3);
    assert_eq!(first, script(&workload, &text, "aaaa", 3));
    let again = script(&workload, &text, "bbbb", 3);
    assert!(!again.turns[0].0.starts_with(&first.turns[0].0[..12]), "the prefix cache would have it");
    assert_eq!(again.turns[0].0.replace("bbbb", "aaaa"), first.turns[0].0);
    assert_ne!(script(&workload, &text, "aaaa", 4).turns[1].0, first.turns[1].0);
    let other = Workload { seed: 6, ..workload.clone() };
    assert_ne!(script(&other, &text, "aaaa", 3).turns[1].0, first.turns[1].0);
    assert_eq!(first.turns.len(), 3);
}

#[test]
fn prompts_have_the_length_that_was_asked_for() {
    let text = Text::by_length(0.25, 30.0);
    // From shorter than a paragraph to longer than the whole text.
    for tokens in [64, 100, 1024, 20_000] {
        let workload = Workload { input: Length::fixed(tokens), ..Workload::default() };
        for place in 0..20 {
            let said = &script(&workload, &text, "0", place).turns[0].0;
            // The mark and the task are in the overhead; here they have about 100 letters.
            let letters = u32::try_from(said.len()).expect("a prompt is short");
            let found = (f64::from(letters) - 100.0) * 0.25 + 30.0;
            let off = (found - f64::from(tokens)).abs();
            assert!(off < 8.0 + f64::from(tokens) * 0.01, "{tokens}: {found}");
        }
    }
}

#[test]
fn a_prefix_is_common_to_a_run_and_ahead_of_all_else() {
    let text = Text::by_length(0.25, 30.0);
    let workload = Workload { prefix_tokens: 500, ..Workload::default() };
    let (one, two) = (script(&workload, &text, "m", 0), script(&workload, &text, "m", 1));
    let common = one.turns[0].0.bytes().zip(two.turns[0].0.bytes()).take_while(|(a, b)| a == b).count();
    assert!((1900..2300).contains(&common), "{common} letters in common");
}

#[test]
fn files_of_every_form_are_read() {
    let one = |turns: &[&str], system: Option<&str>| Conversation {
        system: system.map(str::to_owned),
        turns: turns.iter().map(|turn| (*turn).to_owned()).collect(),
    };
    let lines = "{\"prompt\": \"a\", \"more\": 1}\n\n{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, \
                 {\"role\": \"user\", \"content\": \"b\"}, {\"role\": \"assistant\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": \"c\"}]}\n";
    assert_eq!(read(lines), Ok(vec![one(&["a"], None), one(&["b", "c"], Some("s"))]));
    let list = r#"[{"id": "1", "conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "x"},
        {"from": "human", "value": "b"}]}, {"conversations": [{"from": "gpt", "value": "x"}]}]"#;
    assert_eq!(read(list), Ok(vec![one(&["a", "b"], None)]));
    for (text, wanted) in [
        ("", "no prompt"),
        ("{\"prompt\": \"a\"}\n{\"prompt\": \n", "line 2"),
        ("{\"text\": \"a\"}", "neither `prompt`"),
        ("[{\"prompt\": \"a\"}, {}]", "entry 2"),
    ] {
        let why = read(text).expect_err("it is wrong");
        assert!(why.contains(wanted), "{why}");
    }
}
