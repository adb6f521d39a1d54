//! Placed files, commands ahead of the engine, and secrets: part of a release, and what a user sees of them.

use sparkctl::delivery::{Content, LocalFile, Secret};
use sparkctl::event::{Event, RunOutcome};
use sparkctl::fabric::Links;
use sparkctl::host::fake::{Behaviour, Fault, Moment};
use sparkctl::operation::{self, Target};
use sparkctl::plan::{Plan, StageKind, planner, render};
use sparkctl::profile::{EnvValue, PlacedFile, SecretSource};
use sparkctl::release::ReleaseNumber;
use sparkctl::report::{Sink, audit::Audit};

use crate::desk::{self, Command, Desk, changed};
use crate::{FIRST, SECOND};

const TEMPLATE: &str = "/sparkctl/chat.jinja";
const RANKS: [(&str, &str); 2] = [("spark1", "sparkctl-qwen35-122b-0"), ("spark2", "sparkctl-qwen35-122b-1")];
const TOKEN: &str = "hf_Zq81RtYxWv";
const TOKEN_IN_HEXADECIMAL: &str = "68665f5a713831527459785776";

/// With a placed file of this content.
pub fn with_file(desk: &Desk, content: &str) -> Desk {
    let mut desk = desk.clone();
    desk.profile.files =
        vec![PlacedFile { source: "/home/ada/chat.jinja".to_owned(), target: TEMPLATE.to_owned() }];
    let content = Content::from(content.as_bytes().to_vec());
    desk.delivery.files = vec![LocalFile { target: TEMPLATE.to_owned(), content }];
    desk
}

/// With a secret of this value.
pub fn with_secret(desk: &Desk, name: &str, value: &str) -> Desk {
    let mut desk = desk.clone();
    let source = EnvValue::Secret(SecretSource::File("/home/ada/token".to_owned()));
    desk.profile.engine.env.insert(name.to_owned(), source);
    desk.delivery.secrets.0.insert(name.to_owned(), Secret::from(value.to_owned()));
    desk
}

/// What each rank's container reads at the template's place.
fn read(desk: &Desk) -> Vec<Option<String>> {
    let of = |(node, container): &(&str, &str)| {
        desk.cluster.machine(node, |machine| machine.reads(container, TEMPLATE))
    };
    RANKS.iter().map(of).map(|bytes| bytes.map(|bytes| String::from_utf8(bytes).unwrap())).collect()
}

fn both(text: &str) -> Vec<Option<String>> {
    vec![Some(text.to_owned()); 2]
}

fn kinds(plan: &Plan) -> Vec<StageKind> {
    plan.stages.iter().map(|stage| stage.kind).collect()
}

/// Forgets everything of a kind that a node keeps.
pub fn lose(desk: &Desk, node: &str, kind: &str) {
    desk.cluster.machine(node, |machine| machine.kept.retain(|path, _| !path.contains(kind)));
}

fn refused(run: &desk::Run) -> Vec<String> {
    let Some(RunOutcome::Refused { findings }) = &run.outcome else { panic!("{:?}", run.outcome) };
    findings.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_is_a_new_release_and_a_rollback_brings_the_old_one_back() {
    let one = with_file(&Desk::seed(), "one");
    one.deployed().await;
    assert_eq!(read(&one), both("one"));
    assert!(one.plan().await.plan.is_empty(), "an unchanged file is nothing to do");

    let two = with_file(&one, "two, and longer");
    let plan = two.plan().await.plan;
    let text = render::text(&plan, false);
    assert!(text.contains("  files     spark1   /sparkctl/chat.jinja, 15 B\n"), "{text}");
    for node in ["spark1", "spark2"] {
        assert!(
            plan.differences.contains(&format!("{node}: file {TEMPLATE} changed")),
            "{:?}",
            plan.differences
        );
    }
    two.deployed().await;
    assert_eq!(read(&two), both("two, and longer"));
    assert!(two.serves(SECOND));

    let run = two.run(Command::Rollback(Target::Before)).await;
    two.hold_to_account(&run);
    assert!(two.serves(FIRST), "{:?}", run.outcome);
    assert_eq!(read(&two), both("one"));
    assert!(one.plan().await.plan.is_empty());
}

/// The files go while the old release serves, and only to the nodes that lack them.
#[tokio::test(start_paused = true)]
async fn files_go_to_the_nodes_that_lack_them() {
    let desk = with_file(&Desk::seed(), "one");
    desk.deployed().await;
    lose(&desk, "spark2", "/files/");
    let plan = desk.plan().await.plan;
    assert_eq!(kinds(&plan), [StageKind::Files], "{:?}", plan.stages);
    assert_eq!(plan.stages[0].steps.len(), 1);
    assert_eq!(plan.stages[0].steps[0].node.as_str(), "spark2");
    desk.deployed().await;
    assert_eq!(read(&desk), both("one"));
    assert!(desk.serves(FIRST), "nothing was started anew");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_a_node_lost_comes_from_another_one_or_the_rollback_is_refused() {
    let one = with_file(&Desk::seed(), "one");
    one.deployed().await;
    let two = with_file(&one, "two");
    two.deployed().await;
    let copied = two.copy();
    for (node, desk) in [("spark1", &two), ("spark2", &copied)] {
        lose(desk, node, "/files/");
        let run = desk.run(Command::Rollback(Target::Before)).await;
        desk.hold_to_account(&run);
        assert!(desk.serves(FIRST), "{:?}", run.outcome);
        assert_eq!(read(desk), both("one"));
    }
    let gone = two.copy();
    for node in ["spark1", "spark2"] {
        lose(&gone, node, "/files/");
    }
    let run = gone.run(Command::Rollback(Target::Number(SECOND))).await;
    gone.hold_to_account(&run);
    let wanted = "the file `/sparkctl/chat.jinja` of release 2 is on no node any more (file-absent)";
    assert_eq!(refused(&run), [format!("spark1: {wanted}"), format!("spark2: {wanted}")]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_deploy_brings_the_files_of_the_release_before_back() {
    let one = with_file(&Desk::seed(), "one");
    one.deployed().await;
    let two = with_file(&one, "two");
    one.cluster.behave(2, Behaviour::WrongAnswers);
    let run = two.run(Command::Deploy).await;
    two.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Restored { release: FIRST, .. })), "{:?}", run.outcome);
    assert_eq!(read(&two), both("one"));
}

#[tokio::test(start_paused = true)]
async fn a_command_ahead_of_the_engine_that_fails_is_told_and_the_release_before_serves() {
    let desk = Desk::seed();
    desk.deployed().await;
    let mut desk = desk.with(desk.profile.clone());
    desk.profile.engine.before = vec![["bash", "/sparkctl/patch.sh"].map(str::to_owned).to_vec()];
    let plan = desk.plan().await.plan;
    let text = render::text(&plan, true);
    assert!(text.contains("\n    before  bash /sparkctl/patch.sh\n    argv    python3 -u -c"), "{text}");
    let told = "spark2: commands ahead of the engine nothing → 'bash /sparkctl/patch.sh'".to_owned();
    assert_eq!(plan.differences[1], told);
    desk.cluster.behave(2, Behaviour::BeforeFails(1));
    let run = desk.run(Command::Deploy).await;
    desk.hold_to_account(&run);
    assert!(matches!(run.outcome, Some(RunOutcome::Restored { release: FIRST, .. })), "{:?}", run.outcome);
    let failure = run.events.iter().find_map(|event| match event {
        Event::Failed { failure } => Some(failure),
        _ => None,
    });
    let told = sparkctl::report::terminal::failure_lines(failure.unwrap()).join("\n");
    for wanted in [
        "error: ready failed on spark2: rank 1 on spark2 ended (exit status 3)",
        "  spark2  patch: **** Can't find file to patch",
        "cause: `engine.before[0]` failed with exit status 3: bash /sparkctl/patch.sh",
        "hint:  mend that command",
    ] {
        assert!(told.contains(wanted), "{wanted}\n{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_secret_is_a_new_release_and_a_rollback_has_the_value_of_then() {
    let desk = with_secret(&Desk::seed(), "HF_TOKEN", TOKEN);
    let desk = with_secret(&desk, "OTHER", "unchanged-value");
    desk.deployed().await;
    assert!(desk.plan().await.plan.is_empty(), "an unchanged secret is nothing to do");
    // Of another operator's machine, too.
    assert!(desk.copy().plan().await.plan.is_empty());

    let two = with_secret(&desk, "HF_TOKEN", "hf_another_value");
    let plan = two.plan().await.plan;
    assert_eq!(plan.differences, ["spark1: secret HF_TOKEN changed", "spark2: secret HF_TOKEN changed"]);
    let text = render::text(&plan, true);
    assert!(text.contains("  files     spark1   secrets HF_TOKEN, OTHER\n"), "{text}");
    two.deployed().await;
    assert!(two.serves(SECOND) && told_by_engine(&two, "hf_another_value"));

    // No reference is asked for: what the release was started with is on the nodes.
    let run = two.run(Command::Rollback(Target::Before)).await;
    two.hold_to_account(&run);
    assert!(two.serves(FIRST) && told_by_engine(&two, TOKEN), "{:?}", run.outcome);
    assert!(desk.plan().await.plan.is_empty());

    let mut none = desk.with(desk.profile.clone());
    none.profile.engine.env.remove("OTHER");
    none.delivery.secrets.0.remove("OTHER");
    let gone = ["spark1: secret OTHER is gone", "spark2: secret OTHER is gone"];
    assert_eq!(none.plan().await.plan.differences, gone);
}

/// Whether the engine of each rank was started with this value: the fake one tells all that it has.
fn told_by_engine(desk: &Desk, value: &str) -> bool {
    RANKS.iter().all(|(node, container)| {
        desk.cluster.machine(node, |machine| {
            machine.containers[*container].log.iter().any(|line| line.ends_with(&format!("={value}")))
        })
    })
}

/// Recorded facts hold no comparison, and a plan against them fetches no values.
#[tokio::test(start_paused = true)]
async fn secrets_that_nobody_compared_are_taken_as_unchanged() {
    let desk = with_secret(&Desk::seed(), "HF_TOKEN", TOKEN);
    let mut facts = operation::look(&desk.profile, &desk.deployed().await.hosts()).await.unwrap();
    let unfetched = with_secret(&desk, "HF_TOKEN", "").delivery;
    let finding = operation::take_secrets_as_same(&mut facts).unwrap();
    assert_eq!(finding.id, "secrets-not-compared");
    let planned =
        planner::deploy(&desk.profile, &unfetched, &facts, &Links::default(), &desk::operator()).unwrap();
    assert!(planned.plan.is_empty(), "{:?}", planned.plan.differences);
    assert!(operation::take_secrets_as_same(&mut facts).is_none());
}

#[tokio::test(start_paused = true)]
async fn secrets_that_a_node_lost_come_back() {
    let desk = with_secret(&Desk::seed(), "HF_TOKEN", TOKEN);
    desk.deployed().await;
    lose(&desk, "spark2", "/secrets/");
    assert_eq!(kinds(&desk.plan().await.plan), [StageKind::Files]);
    let changed = desk.with(changed(&desk.profile));
    changed.deployed().await;
    lose(&desk, "spark1", "/secrets/");
    let run = desk.run(Command::Rollback(Target::Before)).await;
    desk.hold_to_account(&run);
    assert!(desk.serves(FIRST) && told_by_engine(&desk, TOKEN), "{:?}", run.outcome);
    for node in ["spark1", "spark2"] {
        lose(&desk, node, "/secrets/");
    }
    desk.cluster.forget_effects();
    let run = desk.run(Command::Rollback(Target::Number(SECOND))).await;
    desk.hold_to_account(&run);
    assert!(
        refused(&run)[0].contains("the file of secrets of release 2 is on no node any more (secrets-absent)"),
        "{:?}",
        refused(&run)
    );
}

/// A secret goes to its own file on the nodes and into the engine, and nowhere else.
#[tokio::test(start_paused = true)]
async fn a_secret_is_never_kept_or_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut shown = Vec::new();
    let mut audit = Audit::create(folder.path().join("run")).unwrap();
    let desk = with_secret(&Desk::seed(), "HF_TOKEN", TOKEN);
    let plan = desk.plan().await.plan;
    shown.push(format!("{}{plan:?}{}", render::text(&plan, true), serde_json::to_string(&plan).unwrap()));
    let mut runs = vec![desk.run(Command::Deploy).await];
    // One that fails, with the evidence; one back; and the end.
    desk.cluster.behave(2, Behaviour::CrashAtStart(1));
    let other = with_secret(&desk.with(changed(&desk.profile)), "HF_TOKEN", &format!("{TOKEN}-2"));
    runs.push(other.run(Command::Deploy).await);
    runs.push(desk.run(Command::Stop).await);
    runs.push(desk.run(Command::Rollback(Target::Number(ReleaseNumber(1)))).await);
    for event in runs.iter().flat_map(|run| &run.events) {
        audit.take(event);
        shown.push(format!("{event:?}{}", serde_json::to_string(event).unwrap()));
    }
    let facts = operation::look(&desk.profile, &desk.hosts()).await.unwrap();
    shown.push(format!("{facts:?}"));
    let before = planner::release_before(&desk.profile.name, &facts);
    shown.push(format!("{before:?}"));
    for file in std::fs::read_dir(folder.path().join("run")).unwrap() {
        shown.push(std::fs::read_to_string(file.unwrap().path()).unwrap());
    }
    assert!(shown.concat().contains("‹secret HF_TOKEN›"), "the engine told it, and it was to be taken out");
    let mut kept = 0;
    for (node, container) in RANKS {
        desk.cluster.machine(node, |machine| {
            for ((_, folder), release) in &machine.releases {
                shown.push(String::from_utf8(release.record.clone().unwrap()).unwrap());
                shown.extend(release.logs.values().cloned());
                assert!(!release.logs.is_empty() || folder == "0003");
            }
            shown.push(format!("{:?}", machine.containers[container].spec));
            kept += machine.kept.len();
        });
    }
    assert_eq!(kept, 4, "two values on two nodes");
    let shown = shown.concat();
    for secret in [TOKEN, TOKEN_IN_HEXADECIMAL] {
        let at = shown.find(secret);
        assert_eq!(at, None, "{}", at.map_or("", |at| &shown[at.saturating_sub(300)..at]));
    }
}

/// Where the secrets cannot be read, no log is brought from the node.
#[tokio::test(start_paused = true)]
async fn a_log_whose_secrets_cannot_be_taken_out_stays_on_its_node() {
    let fail = || {
        let desk = with_secret(&Desk::seed(), "HF_TOKEN", TOKEN);
        desk.cluster.behave(1, Behaviour::CrashAtStart(1));
        desk
    };
    let probe = fail();
    probe.run(Command::Deploy).await;
    let about = probe.cluster.effects().iter().rposition(|effect| effect.name == "read-secrets").unwrap();
    // Which of the calls at that time comes first differs from run to run, so each is tried more than once.
    for at in (about - 5..about + 5).cycle().take(100) {
        let desk = fail();
        desk.cluster.fault_at(at + 1, Fault::Fail, Moment::Before);
        let run = desk.run(Command::Deploy).await;
        desk.hold_to_account(&run);
        if desk.cluster.effects()[at].name != "read-secrets" {
            continue;
        }
        let logs = run.events.iter().filter_map(|event| match event {
            Event::Evidence { log, .. } => Some(log.as_str()),
            _ => None,
        });
        let logs: Vec<_> = logs.collect();
        assert_eq!(logs.len(), 2);
        let left = logs.iter().filter(|log| log.starts_with("sparkctl: the log is left on the node: "));
        assert_eq!(left.count(), 1, "{logs:?}");
        assert!(logs.iter().any(|log| log.contains("‹secret HF_TOKEN›")), "{logs:?}");
        return;
    }
    panic!("the fault never came where the secrets are read");
}
