//! Scripts as recipes have them, and the words that they are.

use super::*;

fn read(script: &str) -> Vec<Vec<String>> {
    let variables = [("DIR".to_owned(), "/srv".to_owned())].into();
    commands(script, 1, &variables)
        .into_iter()
        .map(|command| command.words.into_iter().map(|word| word.text).collect())
        .collect()
}

#[test]
fn scripts_become_words() {
    let cases: &[(&str, &[&[&str]])] = &[
        ("vllm serve x \\\n  --port 1\n", &[&["vllm", "serve", "x", "--port", "1"]]),
        // A space behind the backslash is a mistake that recipes make and their tools mend.
        ("a \\ \n b", &[&["a", "b"]]),
        ("a 'b c'\"d e\"\\ f", &[&["a", "b cd e f"]]),
        (r#"--x '{"a": "b"}'\"#, &[&["--x", r#"{"a": "b"}"#]]),
        ("--x '{\"a\":1}'\\\n  --y", &[&["--x", r#"{"a":1}"#, "--y"]]),
        (r#""a\"b\$c\d""#, &[&[r#"a"b$c\d"#]]),
        ("a # b\n# c\nd#e", &[&["a"], &["d#e"]]),
        ("a && b; c\nd", &[&["a"], &["b"], &["c"], &["d"]]),
        ("''", &[&[""]]),
        ("x $DIR/a ${DIR}b ${NOT:-c} '$DIR'", &[&["x", "/srv/a", "/srvb", "c", "$DIR"]]),
        ("python3 - <<'PY'\nimport x; y\nPY\nvllm serve", &[&["python3", "-"], &["vllm", "serve"]]),
        ("a 'not closed", &[&["a", "not closed"]]),
        ("cost $ 5", &[&["cost", "$", "5"]]),
    ];
    for (script, words) in cases {
        assert_eq!(read(script), *words, "{script:?}");
    }
}

#[test]
fn what_only_a_shell_can_do_is_told() {
    let cases: &[(&str, Option<&str>, &[&str])] = &[
        ("a $HOME/x", Some("$HOME"), &[]),
        ("a \"${X:-$Y}\"", Some("${X:-$Y}"), &[]),
        ("a $(b (c) d)e", Some("$(b (c) d)"), &[]),
        ("a `b`", Some("`b`"), &[]),
        ("a > log 2>&1", None, &[">log", "2>&1"]),
        ("a | tee b c", None, &["| tee b c"]),
        ("a &", None, &["&"]),
        ("a | tee log || exit 1", None, &["| tee log || exit 1"]),
    ];
    for (script, shell, rest) in cases {
        let read = commands(script, 1, &BTreeMap::new());
        assert_eq!(read.len(), 1, "{script}");
        let found = read[0].words.iter().find_map(|word| word.shell.as_deref());
        assert_eq!((found, read[0].rest.as_slice()), (*shell, &rest.map_strings()[..]), "{script}");
        assert!(!read[0].is_plain());
        assert_eq!(read[0].raw, *script);
    }
}

trait Strings {
    fn map_strings(&self) -> Vec<String>;
}

impl Strings for &[&str] {
    fn map_strings(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

#[test]
fn words_know_their_lines() {
    let read = commands("\nvllm serve \\\n  a \\\n  'b\nc' d", 10, &BTreeMap::new());
    let lines: Vec<_> = read[0].words.iter().map(|word| word.line).collect();
    assert_eq!(lines, [11, 11, 12, 13, 14]);
}

#[test]
fn a_here_document_belongs_to_its_command() {
    let read = commands("python3 - <<'PY'\n  x = 1\n  PY\nvllm serve m\n", 1, &BTreeMap::new());
    assert_eq!(read[0].raw, "python3 - <<'PY'\n  x = 1\n  PY");
    assert_eq!(read[1].first(), "vllm");
}

#[test]
fn commands_keep_the_operator_that_ends_them() {
    let script = "a && b || c; d ;;\ne &&\nf";
    let read = commands(script, 1, &BTreeMap::new());
    let operators: Vec<_> = read.iter().map(|command| (command.first(), command.operator)).collect();
    assert_eq!(operators, [("a", "&&"), ("b", "||"), ("c", ";"), ("d", ";;"), ("e", "&&"), ("f", "")]);
    assert_eq!(script[read[1].place.clone()].trim(), "b");
}
