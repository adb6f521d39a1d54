//! What a deploy comes to when something goes wrong, as a table for people: each situation is lived through on machines
//! in memory, and docs/outcomes.md says what came of it.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use sparkctl::cluster::facts::NoDocker;
use sparkctl::event::RunOutcome;
use sparkctl::execute::Cancel;
use sparkctl::host::fake::{Behaviour, Fault, Moment, SEED_MODEL};
use sparkctl::plan::planner::Operator;
use sparkctl::release::ReleaseNumber;
use sparkctl::status::ask;

use crate::delivered::with_secret;
use crate::desk::{self, Command, Desk, Run, changed};

const HEAD: &str = "sparkctl-qwen35-122b-0";
const WORKER: &str = "sparkctl-qwen35-122b-1";

const TOP: &str = "\
# Outcomes

What a deploy comes to when something goes wrong. Unless a line says otherwise, release 1 serves, and a deploy of a change,
with new weights, is to become release 2; the next deploy is of the same profile, when what went wrong is mended.

- Whatever happens, at no time do two engines hold one GPU, and a success is told only of what answered.
- A deploy that was killed needs nothing to be cleared by hand: its lock ends with it, and the next command says what it was
  at, from whatever machine, by the journal on the head.
- The first interrupt goes back in order. A second one leaves at once, says what it leaves where, and is then as a SIGKILL at
  that stage, with exit status 130.

Each line was lived through on machines in memory, and this file is what came of it: `UPDATE_DOCS=1 cargo test --test deploy
outcomes`. On real machines `tests/rig/kills.rs` and `tests/rig/restore.rs` do the like.

| situation | exit | what is then | `status` | the next deploy |
|---|---|---|---|---|
";

/// A line of the table.
struct Row {
    situation: String,
    exit: String,
    then: String,
    status: String,
    next: String,
}

fn anna() -> Operator {
    Operator { who: "anna@laptop".to_owned(), ..desk::operator() }
}

/// Release 1 serves, and a change with new weights is to come.
async fn change() -> Desk {
    let desk = Desk::seed();
    desk.deployed().await;
    let desk = desk.with(changed(&desk.profile));
    desk.cluster.machine("spark1", |m| {
        let files = &mut m.folders.get_mut(SEED_MODEL).unwrap().files;
        let file = files.iter_mut().find(|file| file.path.ends_with(".safetensors")).unwrap();
        (file.mtime, file.sha256) = (file.mtime + 60, None);
    });
    desk.copy()
}

/// What serves, asked of the machines themselves.
fn then(desk: &Desk) -> String {
    match ((1..9).map(ReleaseNumber).find(|number| desk.serves(*number)), desk.running()) {
        (Some(number), _) => format!("release {number} serves"),
        (None, 0) => "nothing runs".to_owned(),
        (None, count) => format!("{count} of 2 ranks run, and nothing serves"),
    }
}

async fn status(desk: &Desk) -> String {
    let status = ask(&desk.profile, &desk.hosts(), &[]).await;
    let exit = status.exit() as u8;
    let mut words = format!("{:?}, {exit}", status.health).to_lowercase();
    let cut = status.warnings.iter().find(|warning| warning.message.contains("was cut off"));
    if let Some(cut) = cut {
        let message = cut.message.split(", begun ").next().unwrap_or_default();
        let _ = write!(words, "; \"{message}\"");
    }
    words
}

fn exit(run: &Run) -> String {
    run.outcome.as_ref().map_or_else(|| "killed".to_owned(), |outcome| (outcome.exit() as u8).to_string())
}

fn came_of(outcome: Option<&RunOutcome>) -> String {
    match outcome.unwrap() {
        RunOutcome::Deployed { release, .. } => format!("release {release} serves"),
        RunOutcome::NothingToDo { release: Some(release), .. } => {
            format!("nothing to do: release {release} serves")
        }
        other => panic!("the next deploy ends with {other:?}"),
    }
}

/// The line of a situation: a run that was, whatever is to be mended, and the next deploy.
async fn row(situation: &str, desk: &Desk, run: Option<&Run>, mend: impl FnOnce(&Desk)) -> Row {
    if let Some(run) = run {
        desk.hold_to_account(run);
    }
    let (then, status) = (then(desk), status(desk).await);
    mend(desk);
    desk.cluster.heal();
    let next = desk.run(Command::Deploy).await;
    desk.hold_to_account(&next);
    assert!(desk.plan().await.plan.is_empty(), "{situation}: there is still something to do");
    Row {
        situation: situation.to_owned(),
        exit: run.map_or_else(String::new, exit),
        then,
        status,
        next: came_of(next.outcome.as_ref()),
    }
}

fn nothing(_: &Desk) {}

/// The stages of a deploy, each with the number of an effect in its middle.
async fn stages(desk: &Desk) -> Vec<(String, usize)> {
    let probe = desk.copy();
    let before = probe.cluster.machine("spark1", |m| m.journals.values().map(String::len).sum::<usize>());
    probe.cluster.forget_effects();
    probe.run(Command::Deploy).await;
    let effects = probe.cluster.effects();
    let writes = effects.iter().enumerate().filter(|(_, effect)| effect.name == "write-journal");
    let writes: Vec<_> = writes.map(|(at, _)| at).collect();
    let text = probe.cluster.machine("spark1", |m| m.journals["qwen35-122b"][before..].to_owned());
    let (mut groups, mut begun) = (Vec::<Vec<String>>::new(), false);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let begins = line["state"] == "begun";
        if begins && !begun {
            groups.push(Vec::new());
        }
        begun = begins;
        if let (true, Some(stage), Some(group)) = (begins, line["stage"].as_str(), groups.last_mut()) {
            group.push(stage.to_owned());
        }
    }
    // The last write is the end of the operation.
    assert_eq!(groups.len() + 1, writes.len(), "{groups:?}");
    let middle = |at: usize| usize::midpoint(writes[at] + 1, writes[at + 1]) + 1;
    groups.into_iter().enumerate().map(|(at, group)| (group.join(" and "), middle(at))).collect()
}

async fn killed(rows: &mut Vec<Row>) {
    let desk = change().await;
    for (stage, number) in stages(&desk).await {
        let desk = desk.copy();
        desk.cluster.fault_at(number, Fault::Die, Moment::Before);
        let run = desk.run_as(Command::Deploy, &anna()).await;
        desk.cluster.heal();
        assert!(run.outcome.is_none(), "{stage}: {:?}", run.outcome);
        rows.push(
            row(&format!("sparkctl is killed (SIGKILL) at `{stage}`"), &desk, Some(&run), nothing).await,
        );
    }
    let desk = change().await;
    let number = stages(&desk).await.iter().find(|(stage, _)| stage == "ready").unwrap().1;
    desk.cluster.fault_at(number, Fault::Die, Moment::Before);
    let run = desk.run_as(Command::Deploy, &anna()).await;
    desk.cluster.heal();
    desk.cluster.reboot();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let situation = "sparkctl is killed at `ready`, and the nodes boot before anybody looks";
    rows.push(row(situation, &desk, Some(&run), nothing).await);
}

/// A deploy in which a call hangs from the middle of a stage on, until somebody interrupts.
async fn interrupted(rows: &mut Vec<Row>) {
    let desk = change().await;
    for (stage, number) in stages(&desk).await {
        let desk = desk.copy();
        desk.cluster.fault_at(number, Fault::Hang, Moment::Before);
        let (switch, cancel) = Cancel::new();
        let wish = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let _ = switch.send(true);
            std::future::pending::<()>().await;
        });
        let run = desk.run_until(Command::Deploy, &cancel).await;
        wish.abort();
        rows.push(row(&format!("SIGINT at `{stage}`"), &desk, Some(&run), nothing).await);
    }
}

async fn engines(rows: &mut Vec<Row>) {
    for (situation, behaviour) in [
        ("the worker ends while it starts", Behaviour::CrashAtStart(1)),
        ("the head ends while it starts", Behaviour::CrashAtStart(0)),
        ("the engine hangs while it starts", Behaviour::NeverConnected),
        ("the engine answers wrongly", Behaviour::WrongAnswers),
    ] {
        let desk = change().await;
        desk.cluster.behave(2, behaviour);
        let run = desk.run(Command::Deploy).await;
        rows.push(row(situation, &desk, Some(&run), nothing).await);
    }
    let desk = Desk::seed();
    desk.cluster.behave(1, Behaviour::CrashAtStart(0));
    let run = desk.run(Command::Deploy).await;
    rows.push(row("the head ends while it starts, and nothing ran before", &desk, Some(&run), nothing).await);
    for (situation, node, container) in [
        ("the worker of release 1 is killed; no deploy is under way", "spark2", WORKER),
        ("the head of release 1 is killed; no deploy is under way", "spark1", HEAD),
    ] {
        let desk = Desk::seed();
        desk.deployed().await;
        desk.cluster.machine(node, |m| m.kill(container));
        rows.push(row(situation, &desk, None, nothing).await);
    }
}

async fn networks(rows: &mut Vec<Row>) {
    let desk = change().await;
    desk.cluster.machine("spark1", |m| m.lost_peers = vec!["192.168.200.13".parse().unwrap()]);
    desk.cluster.machine("spark2", |m| m.lost_peers = vec!["192.168.200.12".parse().unwrap()]);
    desk.cluster.forget_effects();
    let run = desk.run(Command::Deploy).await;
    let mended = |desk: &Desk| {
        for node in ["spark1", "spark2"] {
            desk.cluster.machine(node, |m| m.lost_peers.clear());
        }
    };
    rows.push(row("the fabric is cut", &desk, Some(&run), mended).await);

    let desk = change().await;
    let number = stages(&desk).await.iter().find(|(stage, _)| stage == "start").unwrap().1;
    for (situation, back) in [
        ("a node cannot be reached from the middle of `start` on, for half a minute", true),
        ("a node cannot be reached from the middle of `start` on", false),
    ] {
        let desk = desk.copy();
        desk.cluster.fault_at(number, Fault::Disconnect, Moment::Before);
        let healing = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            if back {
                desk.cluster.heal();
            }
            std::future::pending::<()>().await;
        };
        let run = tokio::select! {
            run = desk.run_as(Command::Deploy, &anna()) => run,
            () = healing => unreachable!(),
        };
        rows.push(row(situation, &desk, Some(&run), nothing).await);
    }
    let desk = change().await;
    desk.cluster.set_reachable("spark2", false);
    let run = desk.run(Command::Deploy).await;
    rows.push(row("a node cannot be reached at the begin", &desk, Some(&run), nothing).await);
}

async fn machines(rows: &mut Vec<Row>) {
    let desk = change().await;
    let free = |desk: &Desk, free: u64| desk.cluster.machine("spark2", |m| m.model_disk.free = free);
    free(&desk, 1_000_000);
    desk.cluster.forget_effects();
    let run = desk.run(Command::Deploy).await;
    let mended = |desk: &Desk| free(desk, 3_000_000_000_000);
    rows.push(row("the worker's disk is full", &desk, Some(&run), mended).await);

    let desk = change().await;
    let down = |desk: &Desk, why: Option<NoDocker>| desk.cluster.machine("spark2", |m| m.no_docker = why);
    down(&desk, Some(NoDocker::Failing { why: "it does not answer".to_owned() }));
    let run = desk.run(Command::Deploy).await;
    rows.push(row("the worker's Docker does not answer", &desk, Some(&run), |desk| down(desk, None)).await);

    let desk = Desk::seed();
    desk.deployed().await;
    desk.cluster.reboot();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let situation = "the nodes boot, or their Docker is restarted; no deploy is under way";
    rows.push(row(situation, &desk, None, nothing).await);

    let desk = change().await;
    desk.cluster.machine("spark2", |m| m.clock_ahead = SignedDuration::from_hours(24));
    let run = desk.run(Command::Deploy).await;
    rows.push(row("the worker's clock is a day ahead", &desk, Some(&run), nothing).await);

    let desk = change().await;
    for node in ["spark1", "spark2"] {
        desk.cluster.machine(node, |m| m.user.shell = Some("/usr/bin/fish".to_owned()));
    }
    let run = desk.run(Command::Deploy).await;
    rows.push(row("the login shell of the nodes is fish", &desk, Some(&run), nothing).await);
}

async fn operators(rows: &mut Vec<Row>) {
    let desk = change().await;
    let second = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        desk.run(Command::Deploy).await
    };
    let anna = anna();
    let (first, second) = tokio::join!(desk.run_as(Command::Deploy, &anna), second);
    assert!(matches!(second.outcome, Some(RunOutcome::Locked { .. })), "{:?}", second.outcome);
    desk.hold_to_account(&first);
    desk.cluster.forget_effects();
    let situation = "another operator's deploy is under way; the line is of the second";
    rows.push(row(situation, &desk, Some(&second), nothing).await);

    let desk = with_secret(&change().await, "HF_TOKEN", "it's \"$HOME\" `x` \\ of\ntwo lines");
    let run = desk.run(Command::Deploy).await;
    rows.push(row("a secret has quotes, `$` and a line break", &desk, Some(&run), nothing).await);
}

#[tokio::test(start_paused = true)]
async fn outcomes() {
    let mut rows = Vec::new();
    killed(&mut rows).await;
    interrupted(&mut rows).await;
    engines(&mut rows).await;
    networks(&mut rows).await;
    machines(&mut rows).await;
    operators(&mut rows).await;
    let mut text = TOP.to_owned();
    for Row { situation, exit, then, status, next } in rows {
        let _ = writeln!(text, "| {situation} | {exit} | {then} | {status} | {next} |");
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/outcomes.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(there, text, "UPDATE_DOCS=1 cargo test --test deploy outcomes");
}
