//! What the head's journal says of an operation that was cut off, and records that a newer sparkctl wrote.

use serde_json::{Value, json};
use sparkctl::event::{Event, RunOutcome};
use sparkctl::host::fake::{Fault, Moment};
use sparkctl::operation::{self, Target};
use sparkctl::plan::planner::{Operator, SyncWishes};
use sparkctl::release::{Outcome, ReleaseNumber};
use sparkctl::status::ask;

use crate::desk::{self, Command, Desk, Run, changed};
use crate::{SECOND, kill_at};

fn anna() -> Operator {
    Operator { who: "anna@laptop".to_owned(), ..desk::operator() }
}

/// What a run told of another that was cut off.
fn found(run: &Run) -> Vec<String> {
    let of = |event: &Event| match event {
        Event::Warning { finding } if finding.id == "operation-cut-off" => Some(finding.message.clone()),
        _ => None,
    };
    run.events.iter().filter_map(of).collect()
}

/// The lines on the head.
fn lines(desk: &Desk) -> Vec<Value> {
    let text = desk.cluster.machine("spark1", |m| m.journals.get("qwen35-122b").cloned().unwrap_or_default());
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn warnings(desk: &Desk) -> Vec<String> {
    let status = ask(&desk.profile, &desk.hosts(), &[]).await;
    assert_eq!(status.operation, None);
    status.warnings.into_iter().map(|warning| warning.message).collect()
}

#[tokio::test(start_paused = true)]
async fn each_stage_is_written_before_and_after() {
    let desk = Desk::seed();
    desk.deployed().await;
    let lines = lines(&desk);
    let words = |line: &Value| {
        let word = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", word("stage"), word("state")).trim().to_owned()
    };
    let told: Vec<_> = lines.iter().map(words).collect();
    assert_eq!((told.first().unwrap().as_str(), told.last().unwrap().as_str()), ("begun", "done"));
    for stage in ["weights", "image", "begin", "start", "ready", "verify", "record"] {
        let at = |state: &str| told.iter().position(|line| *line == format!("{stage} {state}")).unwrap();
        assert!(at("begun") < at("done"), "{told:?}");
    }
    for line in &lines {
        assert_eq!((&line["format"], &line["release"]), (&json!(1), &json!(1)), "{line}");
        assert_eq!((&line["operator"], &line["command"]), (&json!("ada@laptop"), &json!("deploy")), "{line}");
        assert!(line["time"].is_string(), "{line}");
    }
    let start = lines.iter().find(|line| line["stage"] == "start").unwrap();
    assert_eq!(start["steps"].as_array().unwrap().len(), 2, "{start}");
    assert!(desk.cluster.machine("spark2", |m| m.journals.is_empty()), "it is on the head alone");
    assert_eq!(warnings(&desk).await, [] as [&str; 0]);
    // One write a stage, and one at the end.
    let writes = desk.cluster.effects().iter().filter(|effect| effect.name == "write-journal").count();
    assert!(writes <= 11, "{writes}");
}

#[tokio::test(start_paused = true)]
async fn the_next_command_says_what_was_cut_off() {
    let cut = || async {
        let desk = Desk::seed();
        let desk = desk.deployed().await.with(changed(&desk.profile));
        let number = crate::number_of(&desk, "create-container").await;
        desk.cluster.fault_at(number, Fault::Die, Moment::Before);
        assert!(desk.run_as(Command::Deploy, &anna()).await.outcome.is_none());
        desk.cluster.heal();
        desk
    };
    let words = "a deploy of release 2 by anna@laptop was cut off while it started the ranks (";
    let desk = cut().await;
    let told = warnings(&desk).await;
    assert!(told.len() == 1 && told[0].starts_with(words), "{told:?}");
    for (command, becomes) in [
        (Command::Deploy, "; release 3 takes its place"),
        (Command::Rollback(Target::Before), "; it is undone: release 1 comes back"),
        (Command::Stop, "; nothing of it is left to do"),
    ] {
        let desk = cut().await;
        let run = desk.run(command).await;
        desk.hold_to_account(&run);
        let told = found(&run);
        assert!(told.len() == 1 && told[0].starts_with(words), "{command:?}: {told:?}");
        assert!(told[0].ends_with(becomes), "{command:?}: {told:?}");
        // It is told once.
        assert_eq!(found(&desk.run(Command::Deploy).await), [] as [&str; 0], "{command:?}");
        assert_eq!(warnings(&desk).await, [] as [&str; 0], "{command:?}");
    }
    // What only moves bytes leaves it as it is, and says so.
    let run = desk.run(Command::Sync(SyncWishes::default())).await;
    assert!(found(&run)[0].ends_with("; a sync leaves that as it is"), "{:?}", found(&run));
    assert_eq!(warnings(&desk).await.len(), 1);
}

/// Everything is in place but the word that it is: the next deploy finds nothing to do, and says the word.
#[tokio::test(start_paused = true)]
async fn a_deploy_that_was_cut_off_at_its_very_end_is_settled() {
    let desk = Desk::seed();
    let probe = desk.copy();
    probe.run(Command::Deploy).await;
    let last = probe.cluster.effects().iter().rposition(|effect| effect.name == "write-journal").unwrap();
    desk.cluster.fault_at(last + 1, Fault::Die, Moment::Before);
    assert!(desk.run(Command::Deploy).await.outcome.is_none());
    desk.cluster.heal();
    assert_eq!(warnings(&desk).await.len(), 1);
    let run = desk.run(Command::Deploy).await;
    assert!(matches!(run.outcome, Some(RunOutcome::NothingToDo { .. })), "{:?}", run.outcome);
    assert!(found(&run)[0].ends_with("; nothing of it is left to do"), "{:?}", found(&run));
    assert_eq!(warnings(&desk).await, [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_deploy_goes_on_though_no_line_can_be_written() {
    for fault in [Fault::Fail, Fault::Hang] {
        let desk = Desk::seed();
        let number = crate::number_of(&desk, "write-journal").await;
        desk.cluster.fault_at(number, fault, Moment::Before);
        let run = desk.run(Command::Deploy).await;
        desk.hold_to_account(&run);
        assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{fault:?}: {:?}", run.outcome);
        let unwritten =
            |event: &&Event| matches!(event, Event::Warning { finding } if finding.id == "journal-unwritten");
        assert_eq!(run.events.iter().filter(unwritten).count(), 1, "{fault:?}");
        // Its end was written all the same.
        assert_eq!(warnings(&desk).await, [] as [&str; 0], "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_at_work_is_not_taken_for_dead() {
    let desk = Desk::seed();
    let looking = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        ask(&desk.profile, &desk.hosts(), &[]).await
    };
    desk.cluster.behave(1, sparkctl::host::fake::Behaviour::NeverReady);
    let deploying = desk.run(Command::Deploy);
    let status = tokio::select! {
        run = deploying => panic!("{:?}", run.outcome),
        status = looking => status,
    };
    assert!(status.operation.as_ref().unwrap().starts_with("ada@laptop, `deploy`"), "{:?}", status.operation);
    assert!(status.warnings.is_empty(), "{:?}", status.warnings);
}

/// Makes the record of a release one that a newer sparkctl wrote.
fn renew(desk: &Desk, folder: &str, edit: impl Fn(&mut Value)) -> Vec<u8> {
    let mut bytes = Vec::new();
    for node in ["spark1", "spark2"] {
        desk.cluster.machine(node, |m| {
            let key = ("qwen35-122b".to_owned(), folder.to_owned());
            let record = m.releases.get_mut(&key).unwrap().record.as_mut().unwrap();
            let mut json: Value = serde_json::from_slice(record).unwrap();
            json["format"] = json!(2);
            edit(&mut json);
            *record = serde_json::to_vec(&json).unwrap();
            bytes.clone_from(record);
        });
    }
    bytes
}

fn record(desk: &Desk, node: &str, folder: &str) -> Vec<u8> {
    let key = ("qwen35-122b".to_owned(), folder.to_owned());
    desk.cluster.machine(node, |m| m.releases[&key].record.clone().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_record_of_a_newer_sparkctl_is_read_and_never_written_over() {
    let desk = Desk::seed();
    let desk = desk.deployed().await.with(changed(&desk.profile));
    desk.deployed().await;
    let written = renew(&desk, "0002", |json| {
        json["adopted"] = json!({ "by": "anna" });
        json["profile"]["cluster"]["racks"] = json!(2);
        json["figures"]["watts"] = json!(240);
    });
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    let release = &facts[0].releases[1];
    assert_eq!((release.number, &release.outcome), (SECOND, &Outcome::Deployed));
    let words = release.newer_words().unwrap();
    for field in ["format 2", "adopted", "profile.cluster.racks", "figures.watts"] {
        assert!(words.contains(field), "{words}");
    }
    // It runs as it should, and numbers above it are given out.
    assert!(desk.plan().await.plan.is_empty());
    let first = desk.with(desk::seed_profile());
    let run = first.run(Command::Deploy).await;
    first.hold_to_account(&run);
    let Some(RunOutcome::Deployed { release, .. }) = run.outcome else { panic!("{:?}", run.outcome) };
    assert_eq!(release, ReleaseNumber(3));
    let noted = |event: &Event| matches!(event, Event::Warning { finding } if finding.id == "release-newer");
    assert!(run.events.iter().any(noted), "it is told");
    let run = first.run(Command::Rollback(Target::Number(SECOND))).await;
    first.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { release: SECOND, .. })), "{:?}", run.outcome);
    for node in ["spark1", "spark2"] {
        assert_eq!(record(&desk, node, "0002"), written, "{node}: it was written over");
    }
    assert!(desk.plan().await.plan.is_empty(), "there is still something to do");
}

/// One that was begun, and whose end this sparkctl knows: still nobody writes it over.
#[tokio::test(start_paused = true)]
async fn a_newer_record_of_a_deploy_that_was_killed_stays_as_it_is() {
    let desk = Desk::seed();
    kill_at(&desk, "http /v1/chat/completions").await;
    let written = renew(&desk, "0001", |json| json["adopted"] = json!(true));
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(!matches!(run.outcome, Some(RunOutcome::Down { .. } | RunOutcome::Refused { .. })));
    assert_eq!(record(&desk, "spark1", "0001"), written);
    assert!(desk.plan().await.plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_known_in_part_is_no_target_of_a_rollback() {
    let desk = Desk::seed();
    let desk = desk.deployed().await.with(changed(&desk.profile));
    desk.deployed().await;
    renew(&desk, "0001", |json| json["ranks"][0]["spec"]["sysctls"] = json!({}));
    desk.cluster.forget_effects();
    let run = desk.run(Command::Rollback(Target::Before)).await;
    let Some(RunOutcome::Refused { findings }) = &run.outcome else { panic!("{:?}", run.outcome) };
    assert!(findings.iter().any(|finding| finding.id == "release-known-in-part"), "{findings:?}");
}
