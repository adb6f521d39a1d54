//! The deployments that are known on the operator's machine: a folder each under
//! `$XDG_STATE_HOME/sparkctl` (`~/.local/state/sparkctl`), with the effective profile of the last
//! deploy and the records of the runs.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::Args;

use super::change::usage;
use crate::config::{self, ConfigError, Given, Loaded};
use crate::delivery::{self, Delivery};
use crate::error::{CommandError, Exit};
use crate::event::{Event, RunOutcome};
use crate::profile::{Cluster, Profile};
use crate::report::Sink;

/// The folder of everything that sparkctl keeps on this machine.
pub fn state() -> Result<PathBuf, CommandError> {
    let from_environment = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    from_environment("XDG_STATE_HOME")
        .or_else(|| from_environment("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("sparkctl"))
        .ok_or_else(|| usage("neither HOME nor XDG_STATE_HOME says where sparkctl may keep its state"))
}

/// A profile's file, and what is set over it: what every command takes that works with a file.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// The profile's file.
    profile: PathBuf,
    /// Sets a field over what the file says, e.g. `engine.memory_fraction=0.75` or `cluster.nodes[spark2].host=x`; may be
    /// repeated.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
}

/// Remembers the profile of a deployment once something is done with it, so that later commands need
/// only its name. A run that was refused leaves what was known.
pub struct Remember {
    folder: PathBuf,
    profile: Profile,
    done: bool,
}

impl Remember {
    /// For a run with `profile`; its folder is made at once, so that one that cannot be is told before.
    pub fn new(profile: &Profile) -> Result<Self, CommandError> {
        let folder = state()?.join(profile.name.as_str());
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| {
            let message =
                format!("error: cannot write to {}: {error}; nothing was changed", folder.display());
            CommandError::new(Exit::Refused, message)
        })?;
        Ok(Self { folder, profile: profile.clone(), done: false })
    }

    fn write(&self) -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        serde_json::to_writer_pretty(&mut file, &self.profile)?;
        file.persist(self.folder.join("profile.json"))?;
        Ok(())
    }
}

impl Sink for Remember {
    fn take(&mut self, event: &Event) {
        let acts = matches!(event, Event::StageStarted { .. })
            || matches!(
                event,
                Event::Finished { outcome: RunOutcome::NothingToDo { release: Some(_), .. }, .. }
            );
        if acts && !self.done {
            self.done = true;
            if let Err(error) = self.write() {
                tracing::warn!("the profile cannot be remembered in {}: {error}", self.folder.display());
            }
        }
    }
}

/// The profile of `name`: a known deployment, or a profile's file; without a name the only one known.
pub fn find(name: Option<&str>) -> Result<Profile, CommandError> {
    let state = state()?;
    match name {
        Some(file)
            if file.contains('/')
                || Path::new(file).extension().is_some_and(|e| e == "yaml" || e == "yml") =>
        {
            read_file(Path::new(file), &[]).map(|loaded| loaded.profile)
        }
        Some(name) => {
            let known = names(&state);
            if known.iter().any(|known| known == name) {
                return remembered(&state, name);
            }
            let error = usage(&format!("no deployment `{name}` is known on this machine"));
            Err(if known.is_empty() {
                error
                    .hint("name the profile's file instead, e.g. `sparkctl status profiles/qwen35-122b.yaml`")
            } else {
                error.hint(format!("known are: {}", known.join(", ")))
            })
        }
        None => match names(&state).as_slice() {
            [] => Err(usage("no deployment is known on this machine").hint("name the profile's file")),
            [only] => remembered(&state, only),
            several => Err(usage("several deployments are known on this machine")
                .hint(format!("name one of: {}", several.join(", ")))),
        },
    }
}

/// Reads a profile's file, with what is set over it; everything that is wrong with it is one error.
pub fn load(args: &ProfileArgs) -> Result<Loaded, CommandError> {
    read_file(&args.profile, &args.set)
}

/// Reads a profile's file likewise.
pub fn read_file(file: &Path, set: &[String]) -> Result<Loaded, CommandError> {
    let given = Given { set, environment: &|name| std::env::var(name).ok() };
    config::load(file, &given).map_err(|error| wrong(&error))
}

/// The nodes alone, of a profile or of a file that profiles extend.
pub fn cluster(file: &Path) -> Result<Cluster, CommandError> {
    config::cluster(file, &|name| std::env::var(name).ok()).map_err(|error| wrong(&error))
}

fn wrong(error: &ConfigError) -> CommandError {
    CommandError::new(Exit::Usage, error.to_string()).details(&error.problems())
}

/// Reads the profile's files and fetches its secrets; everything that is wrong with them is one error.
pub async fn read(loaded: &Loaded) -> Result<Delivery, CommandError> {
    let read = delivery::read::read(&loaded.profile).await;
    read.map_err(|problems| wrong(&loaded.places.error(problems)))
}

/// The same without fetching secrets, for plans that are only looked at.
pub async fn read_without_values(loaded: &Loaded) -> Result<Delivery, CommandError> {
    let read = delivery::read::read_without_values(&loaded.profile).await;
    read.map_err(|problems| wrong(&loaded.places.error(problems)))
}

fn names(state: &Path) -> Vec<String> {
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    let with_profile = entries.filter(|entry| entry.path().join("profile.json").is_file());
    let mut names: Vec<_> = with_profile.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn remembered(state: &Path, name: &str) -> Result<Profile, CommandError> {
    let file = state.join(name).join("profile.json");
    let text = fs::read_to_string(&file).map_err(|error| error.to_string());
    text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string())).map_err(|error| {
        usage(&format!("cannot read {}: {error}", file.display()))
            .hint("name the profile's file instead, or deploy it again")
    })
}
