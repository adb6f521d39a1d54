//! sparkctl is killed, or interrupted, at points spread over a whole deploy: never two engines on one GPU, `status` tells
//! the truth, and the next deploy converges.

use std::collections::BTreeSet;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::harness::{Operator, Rig, Said, answers_rightly, chat, eventually};

const NODES: [&str; 2] = ["spark1", "spark2"];
const KILLS: u32 = 40;
const INTERRUPTS: u32 = 10;

/// Release 1 serves, and each further deploy is of another context length.
struct Bench {
    rig: Rig,
    operator: Operator,
    context: u32,
    /// How far the engines of each node were followed, by the node's clock, and which of them run.
    followed: [(String, BTreeSet<String>); 2],
    /// How long a deploy of a change takes.
    takes: Duration,
}

impl Bench {
    fn new() -> Self {
        let rig = Rig::clean();
        let mut operator = Operator::with("rig-stub");
        operator.set_env("STUB_LOAD_SECONDS", "0.2");
        let followed = NODES.map(|node| (rig.on(node, "date +%s.%N"), BTreeSet::new()));
        let mut bench = Self { rig, operator, context: 2048, followed, takes: Duration::ZERO };
        bench.operator.deploy().ended(0);
        bench.change();
        let began = Instant::now();
        bench.operator.deploy().ended(0);
        bench.takes = began.elapsed();
        bench.one_engine_a_gpu();
        bench
    }

    fn change(&mut self) {
        let next = self.context - 1;
        self.operator.edit(&format!("context_length: {}", self.context), &format!("context_length: {next}"));
        self.context = next;
    }

    /// Begins a deploy of a change, and comes back at the middle of a part of it, of so many.
    fn begin(&mut self, part: u32, of: u32) -> Child {
        self.change();
        let run = self.operator.command(&["deploy", &self.operator.file()]).spawn().expect("sparkctl starts");
        std::thread::sleep(self.takes * (2 * part + 1) / (2 * of));
        run
    }

    /// Deploys the same once more, as soon as the lock is free.
    fn converges(&self) -> Said {
        let said = self.operator.run(&["deploy", "--wait", "30s", &self.operator.file()]).ended(0);
        answers_rightly();
        said
    }

    /// What started and ended on the nodes since this was last asked, as Docker says it.
    fn one_engine_a_gpu(&mut self) {
        for (node, (since, running)) in NODES.iter().zip(&mut self.followed) {
            let told = self.rig.on(
                node,
                &format!(
                    "now=$(date +%s.%N); docker events --since {since} --until $now --filter type=container \
                     --filter event=start --filter event=die --format '{{{{.Action}}}} {{{{.Actor.ID}}}}'; echo $now"
                ),
            );
            for line in told.lines() {
                match line.split_once(' ') {
                    Some(("start", id)) => {
                        running.insert(id.to_owned());
                    }
                    Some((_, id)) => {
                        running.remove(id);
                    }
                    None => line.clone_into(since),
                }
                assert!(running.len() < 2, "{node}: two engines on one GPU: {told}");
            }
        }
    }

    /// What `status` says is so.
    fn status_is_true(&self) {
        let before = chat("Hello!").is_ok();
        let (code, status) = self.operator.status();
        let after = chat("Hello!").is_ok();
        let health = status["health"].as_str().unwrap_or_default().to_owned();
        assert_eq!(code == Some(0), health == "serving", "{status:#}");
        assert!(health != "serving" || before || after, "it serves, and does not answer: {status:#}");
        // One whose deploy has not ended is `starting`, though it may answer already.
        assert!(health != "stopped" || !before || !after, "it answers, and is stopped: {status:#}");
        for (node, rank) in NODES.iter().zip(0_usize..) {
            let running = self.rig.containers(node).iter().any(|container| container.ends_with(" running"));
            let told = status["ranks"][rank]["container"]["running"].as_bool().unwrap_or_default();
            assert_eq!(told, running, "{node}: {status:#}");
        }
    }
}

#[test]
fn killed_anywhere() {
    let mut bench = Bench::new();
    let mut told = 0;
    for part in 0..KILLS {
        let mut run = bench.begin(part, KILLS);
        run.kill().expect("it can be killed");
        run.wait().expect("it ends");
        bench.status_is_true();
        let said = bench.converges();
        told += u32::from(said.stderr.contains("was cut off"));
        bench.one_engine_a_gpu();
        let argv = bench.rig.argv("spark1", "sparkctl-rig-stub-0");
        assert!(argv.contains(&format!("--max-model-len {}", bench.context)), "{part}: {argv}");
        if part % 8 == 0 {
            bench.operator.run(&["plan", "--exit-code", &bench.operator.file()]).ended(0);
        }
    }
    assert!(told > KILLS / 3, "only {told} of {KILLS} were told of");
    bench.operator.run(&["status"]).ended(0);
}

fn signal(run: &Child) {
    let pid = run.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill runs").success());
}

/// The release before goes on or comes back, and the words say which; or the deploy was done already.
#[test]
fn interrupted_anywhere() {
    let mut bench = Bench::new();
    for part in 0..INTERRUPTS {
        let run = bench.begin(part, INTERRUPTS);
        signal(&run);
        let began = Instant::now();
        let output = run.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(began.elapsed() < Duration::from_secs(40), "{part}: {:?}\n{said}", began.elapsed());
        match output.status.code() {
            Some(0) => {}
            Some(130) => {
                let states = ["nothing was changed", "still serves", "serves again, verified"];
                assert!(states.iter().any(|state| said.contains(state)), "{part}: {said}");
                assert!(said.contains("A second interrupt leaves at once"), "{part}: {said}");
            }
            code => panic!("{part}: {code:?}\n{said}"),
        }
        answers_rightly();
        bench.operator.run(&["status"]).ended(0);
        bench.one_engine_a_gpu();
    }
    bench.converges();
}

/// The second interrupt leaves at once, and says what it leaves.
#[test]
fn interrupted_twice() {
    let mut bench = Bench::new();
    let good = bench.operator.profile.clone();
    bench.change();
    bench.operator.edit("STUB_LOAD_SECONDS: \"0.2\"", "STUB_LOAD_SECONDS: \"30\"");
    let file = bench.operator.file();
    let run = bench.operator.command(&["deploy", &file]).spawn().expect("sparkctl starts");
    eventually("the new engine starts", Duration::from_secs(30), || {
        chat("Hello!").is_err() && bench.rig.containers("spark1") == ["sparkctl-rig-stub-0 running"]
    });
    std::thread::sleep(Duration::from_millis(1500));
    signal(&run);
    std::thread::sleep(Duration::from_millis(300));
    signal(&run);
    let began = Instant::now();
    let output = run.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(said.contains("interrupted twice: ") && said.contains(" on spark1, spark2"), "{said}");
    eventually("the lock is free, and the journal tells", Duration::from_secs(20), || {
        bench.operator.run(&["status"]).stdout.contains("a deploy of release 3 by ")
    });
    bench.operator.profile = good;
    let said = bench.converges();
    assert!(said.stderr.contains("takes its place"), "{}", said.stderr);
    bench.operator.run(&["status"]).ended(0);
    bench.one_engine_a_gpu();
}
