//! The scripts that keep, read and compare, and the one that keeps logs, run in earnest by `sh`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::super::{Secret, Secrets};
use super::secret;

/// A node's home.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(".local/state/sparkctl/demo").join(path)
    }

    fn run(&self, script: &str, args: &[&str], input: &[u8]) -> Output {
        let path = format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).args(args).env("HOME", self.0.path()).env("PATH", path);
        command.env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    #[track_caller]
    fn said(&self, script: &str, args: &[&str], input: &[u8]) -> String {
        let output = self.run(script, args, input);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn mode(&self, path: &str) -> u32 {
        fs::metadata(self.at(path)).unwrap().permissions().mode() & 0o777
    }
}

const PUT: &str = include_str!("put-kept.sh");
const TAKE: &str = include_str!("take-kept.sh");
const READ: &str = include_str!("read-secrets.sh");
const COMPARE: &str = include_str!("compare-secrets.sh");
/// SHA-256 of `one\n`, as `sha256sum` says.
const ONE: &str = "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806";

fn secrets(values: &[(&str, &str)]) -> Vec<u8> {
    let one = |(name, value): &(&str, &str)| ((*name).to_owned(), Secret::from((*value).to_owned()));
    Secrets(values.iter().map(one).collect()).file().bytes().to_vec()
}

#[test]
fn a_file_is_kept_whole_or_not_at_all() {
    let home = Home::new();
    let args = ["demo", "files", ONE];
    let cut = home.run(PUT, &args, b"on");
    assert!(!cut.status.success() && String::from_utf8_lossy(&cut.stderr).contains("did not come whole"));
    assert_eq!(fs::read_dir(home.at("files")).unwrap().count(), 0, "nothing is left of it");
    assert_eq!(home.said(PUT, &args, b"one\n"), "changed\n");
    assert_eq!(home.said(PUT, &args, b"one\n"), "unchanged\n");
    assert_eq!((home.mode(&format!("files/{ONE}")), home.mode("files")), (0o444, 0o700));
    assert_eq!(home.said(TAKE, &args, b""), "one\n");
    assert!(!home.run(TAKE, &["demo", "files", "other"], b"").status.success());
}

#[test]
fn secrets_are_their_owners_alone() {
    let home = Home::new();
    let args = ["demo", "secrets", "0001"];
    let file = secrets(&[("A", "first-value"), ("B", "second-value")]);
    assert!(!home.run(PUT, &args, &file[..file.len() - 5]).status.success());
    assert_eq!(home.said(PUT, &args, &file), "changed\n");
    assert_eq!((home.mode("secrets/0001"), home.mode("secrets")), (0o600, 0o700));
    home.said(PUT, &["demo", "secrets", "0002"], &secrets(&[("A", "third-value")]));
    assert_eq!(secret::read_files(&home.said(READ, &["demo"], b"")).len(), 3);
    assert_eq!(home.said(READ, &["another"], b""), "");
}

#[test]
fn values_are_compared_where_they_lie() {
    let home = Home::new();
    assert_eq!(home.said(COMPARE, &["demo"], &secrets(&[("A", "x")])), "");
    let kept = secrets(&[("A", "first-value"), ("AB", "second-value"), ("C", "*")]);
    home.said(PUT, &["demo", "secrets", "0001"], &kept);
    home.said(PUT, &["demo", "secrets", "0002"], &secrets(&[("A", "first-valu")]));
    for (wanted, told) in [
        (&[("A", "first-value"), ("AB", "second-value"), ("C", "*")][..], "0001 A\n0001 AB\n0001 C\n"),
        (&[("A", "first-value"), ("AB", "other")], "0001 A\n"),
        // The end of one value is not another.
        (&[("A", "irst-value"), ("B", "second-value"), ("C", "anything")], ""),
        (&[("A", "first-valu")], "0002 A\n"),
        (&[], ""),
    ] {
        assert_eq!(home.said(COMPARE, &["demo"], &secrets(wanted)), told, "{wanted:?}");
    }
}

/// A kept log is the container's, less the values; and none is kept where Docker gives none.
#[test]
fn a_log_is_kept_without_secrets() {
    const SAVE: &str = include_str!("../release/save-log.sh");
    let home = Home::new();
    let docker = home.0.path().join("docker");
    let answer = r#"#!/bin/sh
[ "$4" != gone ] || { echo "No such container" >&2; exit 1; }
[ "$1" = inspect ] && { echo 0123456789ab; exit; }
[ ! -e "$HOME/silent" ] || { echo "No such container" >&2; exit 1; }
echo "token hf_12345678, short 1234567"; cat "$HOME/odd" 2>/dev/null; echo "é sk-1, sk-1-longer" >&2
"#;
    fs::write(&docker, answer).unwrap();
    fs::set_permissions(&docker, fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["demo", "0001", "0", "sparkctl-demo-0"];
    let log = "releases/0001/rank-0.0123456789ab.log";
    home.said(SAVE, &args, b"");
    let plain = "token hf_12345678, short 1234567\né sk-1, sk-1-longer\n";
    assert_eq!(fs::read_to_string(home.at(log)).unwrap(), plain);
    let kept = secrets(&[
        ("HF_TOKEN", "hf_12345678\n"),
        ("PIN", "1234567"),
        ("KEY", "sk-1-longer"),
        ("K", "1-longer"),
    ]);
    home.said(PUT, &["demo", "secrets", "0001"], &kept);
    home.said(SAVE, &args, b"");
    let redacted = "token ‹secret HF_TOKEN›, short 1234567\né sk-1, ‹secret KEY›\n";
    assert_eq!(fs::read_to_string(home.at(log)).unwrap(), redacted);
    assert_eq!(home.mode(log), 0o600);
    // Where a value's lines end is the same here as in `delivery::redact`.
    let odd = "ab\u{c}cd\u{2028}ef\u{85}gh\u{1c}";
    home.said(PUT, &["demo", "secrets", "0002"], &secrets(&[("ODD", &format!("\r\n{odd}\r\n"))]));
    fs::write(home.0.path().join("odd"), format!("x {odd} y\n")).unwrap();
    home.said(SAVE, &args, b"");
    let redacted = redacted.replace("\né", "\nx ‹secret ODD› y\né");
    assert_eq!(fs::read_to_string(home.at(log)).unwrap(), redacted);
    fs::write(home.0.path().join("silent"), "").unwrap();
    assert!(!home.run(SAVE, &args, b"").status.success());
    assert_eq!(fs::read_to_string(home.at(log)).unwrap(), redacted, "what was kept stays");
}
