//! The script of a native launch, run for real: its ranks at loopback addresses, with shells for engines.

#![expect(clippy::unwrap_used, reason = "what a test takes for granted may panic")]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SCRIPT: &str = include_str!("../src/engine/native.py");
/// What has to happen at once happens in this time, also on a busy machine.
const SOON: Duration = Duration::from_secs(20);

struct Group {
    folder: tempfile::TempDir,
    port: u16,
    size: u8,
}

/// A rank's script; it ends with its test.
struct Rank {
    process: Child,
    log: PathBuf,
}

impl Group {
    fn of(size: u8) -> Self {
        let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = probe.local_addr().unwrap().port();
        Self { folder: tempfile::tempdir().unwrap(), port, size }
    }

    /// Starts a rank's script with `sh -c engine` behind it.
    fn start(&self, rank: u8, engine: &str) -> Rank {
        let addresses: Vec<_> = (1..=self.size).map(|last| format!("127.0.0.{last}")).collect();
        let log = self.folder.path().join(format!("{rank}.log"));
        let file = fs::File::options().create(true).append(true).open(&log).unwrap();
        let mut command = Command::new("python3");
        command.args(["-u", "-c", SCRIPT, &addresses.join(","), &rank.to_string(), &self.port.to_string()]);
        command.arg(self.ranks_file()).args(["--", "sh", "-c", engine]);
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Rank { process: command.spawn().unwrap(), log }
    }

    fn ranks_file(&self) -> PathBuf {
        self.folder.path().join("ranks")
    }

    fn ranks(&self) -> String {
        fs::read_to_string(self.ranks_file()).unwrap_or_default()
    }
}

impl Rank {
    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    #[track_caller]
    fn says(&self, text: &str) {
        eventually(&format!("{text:?} in {}", self.log.display()), || self.said().contains(text));
    }

    /// The exit status; -1 where a signal ended the script itself.
    #[track_caller]
    fn ends(&mut self) -> i32 {
        let mut code = None;
        eventually("the script ends", || {
            code = self.process.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code().unwrap_or(-1)
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // The script ends its engine when it is told to end.
        if self.process.try_wait().unwrap().is_none() {
            self.signal("-TERM");
            let _ = self.process.wait();
        }
    }
}

#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < SOON, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn engines_start_once_all_ranks_are_there() {
    let group = Group::of(3);
    let engine = "echo engine is up; exec sleep 600";
    let first = group.start(1, engine);
    first.says("waiting for the head at 127.0.0.1");
    let head = group.start(0, engine);
    head.says("sparkctl: native has 2 of 3 nodes, missing 127.0.0.3");
    assert_eq!(group.ranks(), "127.0.0.1\n127.0.0.2\n");
    assert!(!head.said().contains("engine is up") && !first.said().contains("engine is up"));
    let second = group.start(2, engine);
    head.says("sparkctl: native has 3 of 3 nodes");
    for rank in [&head, &first, &second] {
        rank.says("engine is up");
    }
    assert_eq!(group.ranks(), "127.0.0.1\n127.0.0.2\n127.0.0.3\n");
}

#[test]
fn a_rank_that_leaves_while_gathering_is_missed_again() {
    let group = Group::of(3);
    let head = group.start(0, "true");
    let worker = group.start(1, "true");
    head.says("has 2 of 3 nodes");
    drop(worker);
    eventually("it is missed", || head.said().matches("has 1 of 3 nodes").count() == 2);
    assert_eq!(group.ranks(), "127.0.0.1\n");
}

#[test]
fn a_stranger_is_turned_away() {
    let group = Group::of(2);
    let head = group.start(0, "true");
    head.says("has 1 of 2 nodes");
    // It comes from the head's own address, which is no worker's.
    let _stranger = std::net::TcpStream::connect(("127.0.0.1", group.port)).unwrap();
    head.says("a stranger at 127.0.0.1 was turned away");
    let mut worker = group.start(1, "true");
    assert_eq!(worker.ends(), 0);
}

/// The status of the engine that ended is its container's; the others are ended, also those that do not listen.
#[test]
fn the_end_of_one_is_the_end_of_all() {
    for (ended, status) in [("exit 7", 7), ("kill -9 $$", 137), ("exit 0", 0)] {
        for first in [0, 1] {
            let group = Group::of(2);
            let mark = group.folder.path().join("mark");
            let engine = format!("while ! [ -e {} ]; do sleep 0.1; done; {ended}", mark.display());
            // One that does not listen takes the script's whole patience: once is enough.
            let trap = if status == 7 && first == 0 { "trap '' TERM; " } else { "" };
            let deaf = format!("{trap}echo engine is up; while true; do sleep 0.1; done");
            let mut one = group.start(first, &format!("echo engine is up; {engine}"));
            let mut other = group.start(1 - first, &deaf);
            one.says("engine is up");
            other.says("engine is up");
            fs::write(&mark, "").unwrap();
            assert_eq!(one.ends(), status, "{ended}");
            assert_eq!(other.ends(), 1, "{ended}: {}", other.said());
            let told = format!("rank {first} at 127.0.0.{} is gone: ending the engine", first + 1);
            assert!(other.said().contains(&told), "{}", other.said());
        }
    }
}

/// A script that is killed leaves its connection to the kernel to close.
#[test]
fn a_killed_script_is_noticed() {
    let group = Group::of(2);
    let mut head = group.start(0, "exec sleep 600");
    let mut worker = group.start(1, "sleep 3");
    eventually("both are there", || group.ranks().lines().count() == 2);
    worker.signal("-KILL");
    assert_eq!((worker.ends(), head.ends()), (-1, 1));
}

/// A rank that comes anew although its connection still stands was gone: so is the group.
#[test]
fn a_rank_that_comes_anew_was_gone() {
    let group = Group::of(2);
    let mut head = group.start(0, "exec sleep 600");
    let worker = group.start(1, "exec sleep 600");
    eventually("both are there", || group.ranks().lines().count() == 2);
    worker.signal("-STOP");
    let again = group.start(1, "exec sleep 600");
    assert_eq!(head.ends(), 1);
    worker.signal("-CONT");
    drop((worker, again));
}

/// Docker's signal is the engine's: it has time to end, and its status counts.
#[test]
fn a_stop_is_passed_on() {
    let group = Group::of(2);
    let mark = group.folder.path().join("mark");
    let engine = format!(
        "trap 'touch {}; exit 3' TERM; echo engine is up; while true; do sleep 0.1; done",
        mark.display()
    );
    let mut head = group.start(0, &engine);
    let mut worker = group.start(1, "exec sleep 600");
    head.says("engine is up");
    head.signal("-TERM");
    assert_eq!((head.ends(), mark.exists()), (3, true));
    assert_eq!(worker.ends(), 1);
    // While it gathers there is nothing to end.
    let group = Group::of(2);
    let mut alone = group.start(0, "true");
    alone.says("has 1 of 2 nodes");
    alone.signal("-TERM");
    assert_eq!(alone.ends(), -1);
}
