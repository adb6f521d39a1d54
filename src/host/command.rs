//! From a script as data to the words and bytes that a node gets, and back from the bytes it
//! answers. Pure.
//!
//! The text of a script never stands on a command line: that is one fixed line, which every login
//! shell (sh, bash, zsh, fish, csh) reads alike, and the text follows as the first line of standard
//! input. What a login shell or its configuration prints beforehand is cut off by a marker.

use super::Script;

/// A script, ready to be handed to a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Composed {
    /// The command line for a login shell; the local host splits it by `sh -c`.
    pub command: String,
    /// The beginning of standard input: the text on one line, then the script's own input.
    pub stdin: Vec<u8>,
}

/// Composes a script. `marker` is a line that nothing else prints; it comes first on standard
/// output and on standard error.
///
/// `read` takes exactly one line of a pipe, by POSIX: nothing of the input behind it is swallowed,
/// as a buffering `head` of some systems would. `$0` names the script in the node's process list.
pub fn compose(script: &Script, marker: &str) -> Composed {
    let mut text = format!("printf '\\n%s\\n' {marker}; printf '\\n%s\\n' {marker} >&2\n");
    // Non-interactive logins often lack the folders of `ip` and `ss`.
    text.push_str("PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin LC_ALL=C\n");
    text.push_str("export PATH LC_ALL; unset LANGUAGE IFS\nset --");
    for argument in &script.args {
        text.push(' ');
        text.push_str(&quote(argument));
    }
    text.push('\n');
    text.push_str(script.text);
    let mut stdin = one_line(&text);
    stdin.extend_from_slice(&script.input);
    let command =
        format!("exec sh -c 'IFS= read -r text; eval \"$(printf %b \"$text\")\"' sparkctl-{}", script.name);
    Composed { command, stdin }
}

/// Quotes a word for a POSIX shell.
pub fn quote(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:@%+,=".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Text as one line that `printf %b` turns back. Everything but plain ASCII is escaped, as shells
/// differ on other bytes in `read`.
fn one_line(text: &str) -> Vec<u8> {
    let mut line = Vec::with_capacity(text.len() + text.len() / 8);
    for byte in text.bytes() {
        match byte {
            b'\n' => line.extend_from_slice(b"\\n"),
            b' '..=b'~' if byte != b'\\' => line.push(byte),
            _ => line.extend_from_slice(format!("\\0{byte:03o}").as_bytes()),
        }
    }
    line.push(b'\n');
    line
}

/// Drops everything up to the marker.
#[derive(Debug)]
pub struct AfterMarker {
    marker: Vec<u8>,
    before: Option<Vec<u8>>,
    ahead: String,
}

impl AfterMarker {
    /// Waits for `marker` and a line's end.
    pub fn new(marker: &str) -> Self {
        Self { marker: format!("{marker}\n").into_bytes(), before: Some(Vec::new()), ahead: String::new() }
    }

    /// Takes bytes as they come; gives those behind the marker.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(before) = &mut self.before else { return bytes.to_vec() };
        before.extend_from_slice(bytes);
        let found = before.windows(self.marker.len()).position(|window| window == self.marker);
        let Some(at) = found else { return Vec::new() };
        let rest = before.split_off(at + self.marker.len());
        self.ahead = String::from_utf8_lossy(&before[..at]).trim().to_owned();
        self.before = None;
        rest
    }

    /// What came ahead of the marker.
    pub fn ahead(&self) -> &str {
        &self.ahead
    }

    /// What came instead of the marker; `None` once it was seen.
    pub fn noise(&self) -> Option<String> {
        self.before.as_ref().map(|before| String::from_utf8_lossy(before).trim().to_owned())
    }
}

/// Splits bytes into lines as they come. Both `\n` and `\r` end a line, `\r\n` together one.
#[derive(Debug, Default)]
pub struct Lines {
    rest: Vec<u8>,
    after_cr: bool,
}

impl Lines {
    /// A line longer than this is given in pieces.
    const LONGEST: usize = 64 * 1024;

    /// The lines that are complete with these bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for &byte in bytes {
            let second_half = byte == b'\n' && self.after_cr;
            self.after_cr = byte == b'\r';
            if second_half {
                continue;
            }
            if byte == b'\n' || byte == b'\r' {
                lines.push(self.take());
                continue;
            }
            self.rest.push(byte);
            if self.rest.len() >= Self::LONGEST {
                lines.push(self.take());
            }
        }
        lines
    }

    /// The last line, where its end is missing.
    pub fn finish(&mut self) -> Option<String> {
        (!self.rest.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> String {
        let line = String::from_utf8_lossy(&self.rest).into_owned();
        self.rest.clear();
        line
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    const MARKER: &str = "marker-0123456789";

    /// Runs a composed script as a login shell would, with the shells that are here.
    fn run(shell: &str, before: &str, script: &Script) -> (Vec<u8>, String) {
        let composed = compose(script, MARKER);
        let mut child = Command::new(shell)
            .args(["-c", &format!("{before}{}", composed.command)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&composed.stdin).unwrap();
        let output = child.wait_with_output().unwrap();
        let mut after = AfterMarker::new(MARKER);
        let stdout = after.push(&output.stdout);
        (stdout, String::from_utf8(AfterMarker::new(MARKER).push(&output.stderr)).unwrap())
    }

    fn shells() -> impl Iterator<Item = &'static str> {
        let there = |shell: &&str| Command::new(shell).arg("-c").arg("true").output().is_ok();
        ["sh", "bash", "zsh", "fish", "tcsh"].into_iter().filter(there)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn words_arrive_as_they_were(words in prop::collection::vec("[^\0]{0,12}", 0..4)) {
            let line: Vec<_> = words.iter().map(|word| quote(word)).collect();
            let output = Command::new("sh")
                .args(["-c", &format!("for word in {}; do printf '%s\\0' \"$word\"; done", line.join(" "))])
                .output()
                .unwrap();
            let wanted: String = words.iter().flat_map(|word| [word, "\0"]).collect();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), wanted);
        }

        #[test]
        fn arguments_and_input_arrive_as_they_were(
            words in prop::collection::vec("[^\0]{0,12}", 0..4),
            input in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let text = "for word; do printf '%s\\0' \"$word\"; done; cat";
            let (stdout, _) = run("sh", "", &Script::new("test", text, words.clone()).input(input.clone()));
            let mut wanted: Vec<u8> = words.iter().flat_map(|word| [word, "\0"]).collect::<String>().into_bytes();
            wanted.extend_from_slice(&input);
            prop_assert_eq!(stdout, wanted);
        }

        #[test]
        fn lines_do_not_depend_on_how_bytes_come(bytes in prop::collection::vec(prop::sample::select(b"ab\r\n".to_vec()), 0..40), cut in 0_usize..40) {
            let mut whole = Lines::default();
            let mut wanted = whole.push(&bytes);
            wanted.extend(whole.finish());
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let mut parts = Lines::default();
            let mut lines = parts.push(first);
            lines.extend(parts.push(second));
            lines.extend(parts.finish());
            prop_assert_eq!(lines, wanted);
        }
    }

    #[test]
    fn every_login_shell_will_do() {
        let text = "# it's a \"test\": \\n stays, $x too\nprintf '%s|' \"$@\" 'Ä \\ é'; read -r line; echo \"$line\"; echo err >&2\nexit 3";
        for shell in shells() {
            let script = Script::new("test", text, ["a b", "$HOME `id` \\ ! ' \"", "zwei\nZeilen", ""]);
            let (stdout, stderr) = run(shell, "", &script.input("input\n"));
            let stdout = String::from_utf8(stdout).unwrap();
            assert_eq!(stdout, "a b|$HOME `id` \\ ! ' \"|zwei\nZeilen||Ä \\ é|input\n", "{shell}");
            assert_eq!(stderr, "err\n", "{shell}");
        }
    }

    #[test]
    fn noise_before_the_script_is_dropped() {
        let script = Script::new("test", "echo yes", [""; 0]);
        let (stdout, _) = run("sh", "printf 'Welcome! no line end'; ", &script);
        assert_eq!(stdout, b"yes\n");
        let mut after = AfterMarker::new("M");
        assert_eq!(after.push(b"This account is not available.\n"), b"");
        assert_eq!(after.noise().as_deref(), Some("This account is not available."));
        assert_eq!(after.push(b"M\nx"), b"x");
        assert_eq!(after.noise(), None);
    }

    #[test]
    fn carriage_returns_end_lines() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"10%\r20%\r"), ["10%", "20%"]);
        assert_eq!(lines.push(b"\nx\n\ny"), ["x", ""]);
        assert_eq!(lines.finish().as_deref(), Some("y"));
    }
}
