//! The rig, the operator and the questions that the tests ask.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The rig's SSH configuration, as `tests/rig/rig` writes it.
pub fn ssh_config() -> PathBuf {
    let state =
        std::env::var_os("RIG_STATE").map_or_else(|| PathBuf::from("/var/lib/sparkctl-rig"), PathBuf::from);
    state.join("ssh_config")
}

static TURN: Mutex<()> = Mutex::new(());

/// A test's turn on the rig.
pub struct Rig {
    _turn: MutexGuard<'static, ()>,
}

impl Rig {
    /// Waits for the turn, then clears the nodes and puts the tiny model and the stub engine on the head.
    pub fn clean() -> Self {
        let rig = Self { _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner) };
        rig.run(&["reset"]);
        rig.run(&["model", "spark1"]);
        rig.run(&["load", "spark1", "stub"]);
        rig
    }

    /// A command of `tests/rig/rig`, which has to succeed.
    #[expect(clippy::unused_self, reason = "only whose turn it is may touch the rig")]
    pub fn run(&self, args: &[&str]) -> String {
        let output = Self::try_run(args);
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        assert!(output.status.success(), "rig {args:?} failed: {}", String::from_utf8_lossy(&said));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The same where failure is an answer.
    pub fn try_run(args: &[&str]) -> Output {
        let rig = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rig/rig");
        Command::new(rig).args(args).stdin(Stdio::null()).output().expect("the rig's command starts")
    }

    /// A shell command on a node, as root.
    pub fn on(&self, node: &str, command: &str) -> String {
        self.run(&["exec", node, "sh", "-c", command]).trim().to_owned()
    }

    /// Names and states of all containers of a node, running or not.
    pub fn containers(&self, node: &str) -> Vec<String> {
        let listed = self.on(node, "docker ps -a --format '{{.Names}} {{.State}}' | sort");
        listed.lines().map(str::to_owned).collect()
    }

    /// A field of a container, in Docker's own template language.
    pub fn inspect(&self, node: &str, container: &str, template: &str) -> String {
        self.on(node, &format!("docker inspect -f '{template}' {container}"))
    }

    /// The command lines of a container's processes, as the kernel has them. The first is Docker's own
    /// init, with the whole of ours behind it; the last is the engine.
    pub fn argv(&self, node: &str, container: &str) -> String {
        self.on(node, &format!("docker top {container} -eo pid,args"))
    }

    /// The environment of a container's process, as the kernel has it.
    pub fn environment(&self, node: &str, container: &str) -> Vec<String> {
        let command = format!("docker exec {container} cat /proc/1/environ | tr '\\0' '\\n'");
        self.on(node, &command).lines().map(str::to_owned).collect()
    }
}

/// An operator with a state folder of their own, and a profile.
pub struct Operator {
    pub folder: tempfile::TempDir,
    /// The profile's text.
    pub profile: String,
}

/// What a run of sparkctl said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Operator {
    /// With `profiles/NAME.yaml`.
    pub fn with(name: &str) -> Self {
        let file = format!("{}/profiles/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let profile = std::fs::read_to_string(file).expect("the profile is there");
        Self { folder: tempfile::tempdir().expect("a temporary folder"), profile }
    }

    /// Replaces a text of the profile, which has to be in it.
    pub fn edit(&mut self, from: &str, to: &str) -> &mut Self {
        assert!(self.profile.contains(from), "{from:?} is not in the profile:\n{}", self.profile);
        self.profile = self.profile.replacen(from, to, 1);
        self
    }

    /// Gives the engine's containers a variable.
    pub fn set_env(&mut self, name: &str, value: &str) -> &mut Self {
        if !self.profile.contains("  env:") {
            self.profile = self.profile.replacen("serve:", "  env:\nserve:", 1);
        }
        self.profile = self.profile.replacen("  env:\n", &format!("  env:\n    {name}: \"{value}\"\n"), 1);
        self
    }

    /// Where the profile lies.
    pub fn file(&self) -> String {
        let file = self.folder.path().join("profile.yaml");
        std::fs::write(&file, &self.profile).expect("the profile is written");
        file.display().to_string()
    }

    /// sparkctl, not yet run.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sparkctl"));
        command.env("XDG_STATE_HOME", self.folder.path()).env("SPARKCTL_SSH_CONFIG", ssh_config());
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs sparkctl to its end.
    pub fn run(&self, args: &[&str]) -> Said {
        let output = self.command(args).output().expect("sparkctl starts");
        Said {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Deploys the profile as it is now.
    pub fn deploy(&self) -> Said {
        self.run(&["deploy", &self.file()])
    }

    /// The status as a document.
    pub fn status(&self) -> (Option<i32>, Value) {
        let said = self.run(&["--output", "json", "status"]);
        let document = serde_json::from_str(&said.stdout);
        (said.code, document.unwrap_or_else(|error| panic!("{error}: {said:?}")))
    }
}

impl Said {
    /// Panics with everything that was said unless it ended with `code`.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Panics unless `text` is somewhere in what was said.
    #[track_caller]
    pub fn saying(self, text: &str) -> Self {
        let all = format!("{}{}", self.stdout, self.stderr);
        assert!(all.contains(text), "{text:?} was not said:\n{all}");
        self
    }
}

/// One chat completion at the head's address; the answer, trimmed, or why there was none.
pub fn chat(question: &str) -> Result<String, String> {
    let body = serde_json::json!({
        "model": "tiny", "temperature": 0, "max_tokens": 100,
        "messages": [{ "role": "user", "content": question }],
    });
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(30)).no_proxy().build();
        let client = client.map_err(|error| error.to_string())?;
        let url = "http://10.77.0.11:30000/v1/chat/completions";
        let answer = client.post(url).json(&body).send().await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body: Value = answer.json().await.map_err(|error| error.to_string())?;
        match body["choices"][0]["message"]["content"].as_str() {
            Some(text) if status.is_success() => Ok(text.trim().to_owned()),
            _ => Err(format!("{status}: {body}")),
        }
    })
}

/// Asks what the model knows by heart.
#[track_caller]
pub fn answers_rightly() {
    assert_eq!(chat("What is the capital of Japan? Answer with one word.").as_deref(), Ok("Tokyo"));
}

/// Waits until `condition` holds, for at most `limit`.
#[track_caller]
pub fn eventually(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < limit, "{what}: not after {limit:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
