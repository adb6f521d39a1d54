//! What runs in each container ahead of the engine: the profile's commands, and the loading of its secrets. Pure.
//!
//! It wraps whatever command line an engine's launch has, so no launch needs to know of it. A profile without
//! either keeps its command line as it is.

use serde::{Deserialize, Serialize};

use crate::profile::Profile;

/// Runs in the container: `JSON -- ENGINE_COMMAND...`.
const SCRIPT: &str = include_str!("prelude.py");
/// Where the secrets' file is in the container.
pub const SECRETS_TARGET: &str = "/run/sparkctl/secrets";
/// What stands in front of the JSON, and between it and the engine's command.
const FRONT: [&str; 4] = ["python3", "-u", "-c", SCRIPT];
const BETWEEN: &str = "--";

/// What has to be done ahead of the engine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prelude {
    /// Commands, one after another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Vec<String>>,
    /// The secrets' file in the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<String>,
}

/// The command line that does what the profile wants ahead of the engine, and then becomes `argv`.
pub fn wrap(profile: &Profile, argv: Vec<String>) -> Vec<String> {
    let prelude = Prelude {
        before: profile.engine.before.clone(),
        secrets: (!profile.secrets().is_empty()).then(|| SECRETS_TARGET.to_owned()),
    };
    if prelude == Prelude::default() {
        return argv;
    }
    let json = serde_json::to_string(&prelude).expect("a prelude is always JSON");
    let front = FRONT.map(str::to_owned).into_iter().chain([json, BETWEEN.to_owned()]);
    front.chain(argv).collect()
}

/// What a command line does ahead of the engine, and the engine's own part of it.
pub fn split(argv: &[String]) -> (Prelude, &[String]) {
    let read = || {
        let [python, unbuffered, flag, script, json, between, rest @ ..] = argv else { return None };
        let front = [python, unbuffered, flag, script].map(String::as_str);
        // A release of another sparkctl may have another script: its first line tells what it is.
        let title = |text: &str| text.lines().next().map(str::to_owned);
        let ours = front[..3] == FRONT[..3] && title(script) == title(SCRIPT) && between == BETWEEN;
        Some((ours.then(|| serde_json::from_str(json).ok())??, rest))
    };
    read().unwrap_or((Prelude::default(), argv))
}

#[cfg(test)]
#[path = "prelude_tests.rs"]
mod tests;
