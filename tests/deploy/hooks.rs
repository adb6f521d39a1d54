//! Hooks around a deploy: real processes, machines in memory.

use sparkctl::event::{Event, RunOutcome};
use sparkctl::profile::Hook;

use crate::FIRST;
use crate::desk::{Command, Desk, Run, changed};

/// A hook that writes what it was told to a file, and ends with `code`.
fn hook(file: &std::path::Path, code: u8) -> Hook {
    let script = format!("env >> {}; cat >> {0}; echo >> {0}; exit {code}", file.display());
    Hook {
        command: ["sh", "-c", &script].map(str::to_owned).to_vec(),
        timeout: std::time::Duration::from_secs(30),
    }
}

struct Hooked {
    desk: Desk,
    folder: tempfile::TempDir,
}

impl Hooked {
    /// Release 1 serves; release 2 is to be deployed with hooks that end with these codes.
    async fn new(pre_deploy: u8, post_ready: u8) -> Self {
        let desk = Desk::seed();
        desk.deployed().await;
        desk.cluster.forget_effects();
        let folder = tempfile::tempdir().unwrap();
        let mut profile = changed(&desk.profile);
        let at = |name: &str, code| Some(hook(&folder.path().join(name), code));
        profile.hooks.pre_deploy = at("pre_deploy", pre_deploy);
        profile.hooks.post_ready = at("post_ready", post_ready);
        profile.hooks.post_deploy = at("post_deploy", 1);
        profile.hooks.on_failure = at("on_failure", 0);
        Self { desk: desk.with(profile), folder }
    }

    async fn deploy(&self) -> Run {
        let run = self.desk.run(Command::Deploy).await;
        self.desk.hold_to_account(&run);
        run
    }

    /// What a hook was told; empty where it did not run.
    fn told(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    fn ran(&self) -> Vec<&'static str> {
        let all = ["pre_deploy", "post_ready", "post_deploy", "on_failure"];
        all.into_iter().filter(|name| !self.told(name).is_empty()).collect()
    }
}

#[tokio::test]
async fn hooks_run_at_their_moments() {
    let hooked = Hooked::new(0, 0).await;
    let run = hooked.deploy().await;
    assert!(matches!(run.outcome, Some(RunOutcome::Deployed { .. })), "{:?}", run.outcome);
    assert_eq!(hooked.ran(), ["pre_deploy", "post_ready", "post_deploy"]);
    assert!(hooked.told("pre_deploy").contains("SPARKCTL_RELEASE=2\n"));
    assert!(hooked.told("post_ready").contains("SPARKCTL_ENDPOINT=http://10.1.230.180:30000/v1\n"));
    assert!(hooked.told("post_deploy").contains(r#""outcome":"deployed""#));
    // It changes nothing any more, and it is told.
    let warned = |event: &Event| matches!(event, Event::Warning { finding } if finding.id == "hook-failed");
    assert!(run.events.iter().any(warned));
}

#[tokio::test]
async fn one_that_refuses_changes_nothing() {
    let hooked = Hooked::new(3, 0).await;
    let run = hooked.deploy().await;
    let Some(RunOutcome::Refused { findings }) = &run.outcome else { panic!("{:?}", run.outcome) };
    assert!(findings[0].message.contains("hook `pre_deploy`"), "{findings:?}");
    assert!(findings[0].message.contains("ended with 3"), "{findings:?}");
    assert_eq!(hooked.ran(), ["pre_deploy"]);
    assert!(hooked.desk.serves(FIRST));
}

#[tokio::test]
async fn one_that_does_not_like_the_new_release_brings_the_old_one_back() {
    let hooked = Hooked::new(0, 1).await;
    let run = hooked.deploy().await;
    assert!(matches!(run.outcome, Some(RunOutcome::Restored { release: FIRST, .. })), "{:?}", run.outcome);
    assert_eq!(hooked.ran(), ["pre_deploy", "post_ready", "on_failure"]);
    assert!(hooked.told("on_failure").contains("SPARKCTL_OUTCOME=restored\n"));
    assert!(hooked.desk.serves(FIRST));
}
