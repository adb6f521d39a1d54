//! Hooks: commands of the operator's own machine, at four moments of a deploy or a rollback.
//!
//! A hook gets what is known as environment variables, and the same as JSON on its standard input. It may call sparkctl
//! again: that call is part of the same operation and finds its lock held for it. Left out: hooks on the nodes.

use std::process::Stdio;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::profile::{DeploymentName, Hook, Moment};
use crate::release::ReleaseNumber;

/// The variable that tells a command of a hook which operation it is part of.
pub const TOKEN: &str = "SPARKCTL_LOCK_TOKEN";
/// Bytes of a hook's output that are told.
const TOLD: usize = 2000;

/// What a hook is told.
#[derive(Debug, Clone, Serialize)]
pub struct Told<'a> {
    pub format: u32,
    pub hook: Moment,
    /// `deploy` or `rollback`.
    pub command: &'a str,
    pub deployment: &'a DeploymentName,
    pub release: Option<ReleaseNumber>,
    pub endpoint: Option<&'a str>,
    /// How it ended, in a word; absent before the end.
    pub outcome: Option<&'a str>,
    /// How many seconds nothing answered, where that is known.
    pub outage_seconds: Option<f64>,
}

impl<'a> Told<'a> {
    /// Where nothing is known but the moment.
    pub fn new(hook: Moment, command: &'a str, deployment: &'a DeploymentName) -> Self {
        Self {
            format: 1,
            hook,
            command,
            deployment,
            release: None,
            endpoint: None,
            outcome: None,
            outage_seconds: None,
        }
    }
}

/// Why a hook did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    #[error("hook `{moment}`: `{command}` could not be started")]
    Start {
        moment: Moment,
        command: String,
        #[source]
        source: std::io::Error,
    },
    #[error("hook `{moment}`: `{command}` took longer than {} s and was ended{said}", limit.as_secs())]
    Late { moment: Moment, command: String, limit: Duration, said: String },
    #[error("hook `{moment}`: `{command}` {how}{said}")]
    Failed { moment: Moment, command: String, how: String, said: String },
}

/// Runs a hook to its end; what it said, in its own words. It dies with sparkctl, and at its limit.
pub async fn run(hook: &Hook, told: &Told<'_>, token: &str) -> Result<String, HookError> {
    let moment = told.hook;
    let command = hook.command.join(" ");
    let failed = |source| HookError::Start { moment, command: command.clone(), source };
    let mut process = Command::new(&hook.command[0]);
    process.args(&hook.command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A group of its own: what it started ends with it, and a Ctrl-C at the terminal is for sparkctl to answer.
    process.kill_on_drop(true).process_group(0);
    process.env(TOKEN, token);
    for (name, value) in variables(told) {
        process.env(name, value);
    }
    let mut child = process.spawn().map_err(failed)?;
    let group = child.id();
    let input = serde_json::to_vec(told).expect("what is told is always JSON");
    let (mut stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut said = Vec::new();
    let work = async {
        let write = async {
            // One that does not read is free not to.
            if let Some(mut stdin) = stdin.take() {
                let _ = stdin.write_all(&input).await;
            }
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let read_out = async {
            if let Some(mut stdout) = stdout {
                let _ = stdout.read_to_end(&mut out).await;
            }
        };
        let read_err = async {
            if let Some(mut stderr) = stderr {
                let _ = stderr.read_to_end(&mut err).await;
            }
        };
        let (status, ..) = tokio::join!(child.wait(), write, read_out, read_err);
        said = [out, err].concat();
        status
    };
    let ended = tokio::time::timeout(hook.timeout, work).await;
    let said = last_words(&said);
    let after = |said: &str| if said.is_empty() { String::new() } else { format!(": {said}") };
    match ended {
        Err(_) => {
            end(group).await;
            Err(HookError::Late { moment, command, limit: hook.timeout, said: after(&said) })
        }
        Ok(Err(source)) => Err(HookError::Start { moment, command, source }),
        Ok(Ok(status)) if status.success() => Ok(said),
        Ok(Ok(status)) => {
            let how = match status.code() {
                Some(code) => format!("ended with {code}"),
                None => "was killed".to_owned(),
            };
            Err(HookError::Failed { moment, command, how, said: after(&said) })
        }
    }
}

/// Ends a hook with all that it started.
async fn end(group: Option<u32>) {
    if let Some(group) = group {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status().await;
    }
}

fn variables(told: &Told<'_>) -> Vec<(&'static str, String)> {
    let some = |name, value: Option<String>| value.map(|value| (name, value));
    [
        some("SPARKCTL_HOOK", Some(told.hook.to_string())),
        some("SPARKCTL_COMMAND", Some(told.command.to_owned())),
        some("SPARKCTL_DEPLOYMENT", Some(told.deployment.to_string())),
        some("SPARKCTL_RELEASE", told.release.map(|release| release.to_string())),
        some("SPARKCTL_ENDPOINT", told.endpoint.map(str::to_owned)),
        some("SPARKCTL_OUTCOME", told.outcome.map(str::to_owned)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The end of what was said, in one line.
fn last_words(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(&said[said.len().saturating_sub(TOLD)..]);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(script: &str, seconds: u64) -> Hook {
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        Hook { command, timeout: Duration::from_secs(seconds) }
    }

    async fn told(hook: &Hook) -> Result<String, HookError> {
        let name = "qwen".parse().unwrap();
        let told = Told {
            format: 1,
            hook: Moment::PostDeploy,
            command: "deploy",
            deployment: &name,
            release: Some(ReleaseNumber(3)),
            endpoint: Some("http://head:30000/v1"),
            outcome: Some("deployed"),
            outage_seconds: None,
        };
        run(hook, &told, "token").await
    }

    #[tokio::test]
    async fn a_hook_is_told_what_is_known() {
        let said = told(&hook("env | grep ^SPARKCTL_ | sort; cat", 20)).await.unwrap();
        for part in [
            "SPARKCTL_COMMAND=deploy; SPARKCTL_DEPLOYMENT=qwen; SPARKCTL_ENDPOINT=http://head:30000/v1; ",
            "SPARKCTL_HOOK=post_deploy; SPARKCTL_LOCK_TOKEN=token; SPARKCTL_OUTCOME=deployed; SPARKCTL_RELEASE=3",
            r#""release":3"#,
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[tokio::test]
    async fn one_that_fails_says_how() {
        let error = told(&hook("echo the pager is down >&2; exit 7", 20)).await.unwrap_err();
        let command = "sh -c echo the pager is down >&2; exit 7";
        assert_eq!(
            error.to_string(),
            format!("hook `post_deploy`: `{command}` ended with 7: the pager is down")
        );
        let absent = Hook { command: vec!["/no/such/program".to_owned()], timeout: Duration::from_secs(5) };
        assert!(matches!(told(&absent).await, Err(HookError::Start { .. })));
    }

    #[tokio::test]
    async fn one_that_hangs_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        let error = told(&hook(&script, 1)).await.unwrap_err();
        assert!(error.to_string().contains("took longer than 1 s and was ended"), "{error}");
        let pid = std::fs::read_to_string(file).unwrap();
        let lives = || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z ")
        };
        // A killed process is gone when the kernel has come to it.
        for _ in 0..100 {
            if !lives() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("what it started goes on");
    }
}
