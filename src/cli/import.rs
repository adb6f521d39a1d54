//! `import`: a recipe of spark-vllm-docker or sparkrun becomes a profile. Reads files, asks no node.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use super::change::usage;
use super::new_file::{SCHEMA, put, put_schema, refuse_early};
use super::{Global, Output, known, print};
use crate::error::{CommandError, Exit};
use crate::import::folder::Disk;
use crate::import::write::{written, yaml};
use crate::import::{self, ImportError, Imported, Wanted};
use crate::profile::{DeploymentName, Profile};
use crate::report::json;

/// A recipe of spark-vllm-docker or sparkrun becomes a profile; what cannot be carried over is listed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sparkctl import recipes/glm-4.7.yaml | less\n  \
                        sparkctl import recipes/glm-4.7.yaml --cluster profiles/qwen35-122b.yaml -o glm-4.7.yaml")]
pub struct ImportArgs {
    /// The recipe's file.
    recipe: PathBuf,
    /// The file to write; left out, the profile goes to standard output.
    #[arg(short = 'o', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Writes over a file that is there.
    #[arg(long)]
    force: bool,
    /// The deployment's name; left out, the recipe's file name.
    #[arg(long)]
    name: Option<DeploymentName>,
    /// A profile, or a file that profiles extend, whose nodes to take, the first as many as the recipe needs; left out,
    /// they are to be filled in.
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// The folder of all models on the nodes; left out, the one of `--cluster`'s model, or `models` in your home.
    #[arg(long, value_name = "DIR")]
    models: Option<String>,
    /// A folder that has the recipe's mods; those beside the recipe are found by themselves. May be given again.
    #[arg(long, value_name = "DIR")]
    mods: Vec<PathBuf>,
    /// Where an editor finds the schema of profiles, a file or a URL; left out, it is written beside the profile.
    #[arg(long, value_name = "FILE|URL")]
    schema: Option<String>,
}

/// `sparkctl import`.
pub fn run(args: ImportArgs, global: &Global) -> Result<Exit, CommandError> {
    if let Some(file) = &args.file {
        refuse_early(file, args.force)?;
    }
    let recipe = args.recipe.display().to_string();
    let bytes = fs::read(&args.recipe).map_err(|error| usage(&format!("cannot read {recipe}: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| usage(&format!("{recipe} is not UTF-8 text")))?;
    let cluster = args.cluster.as_deref().map(known::cluster).transpose()?;
    // Where the models lie is told by a whole profile only.
    let like = args.cluster.as_deref().and_then(|file| known::read_file(file, &[]).ok());
    let wanted = Wanted {
        models: models(args.models.as_deref(), like.as_ref().map(|loaded| &loaded.profile))?,
        name: args.name,
        cluster,
    };
    let disk =
        Disk { recipe: folder(&args.recipe), mods: args.mods, profile: args.file.as_deref().map(folder) };
    let imported = import::import(&recipe, &text, &wanted, &disk).map_err(|error| refused(&recipe, error))?;
    let profile = yaml(&imported, &recipe, args.schema.as_deref().unwrap_or(SCHEMA));
    if let Some(file) = &args.file {
        put(file, &profile, args.force)?;
        if args.schema.is_none() {
            put_schema(file)?;
        }
    }
    match global.output {
        Output::Json => {
            let content = serde_json::json!({
                "recipe": imported.format.name(), "profile": imported.profile, "yaml": profile,
                "nodes_are_stand_ins": imported.stand_ins, "report": imported.report,
            });
            print(&format!("{}\n", json::document(content)));
        }
        Output::Text => {
            if args.file.is_none() {
                print(&profile);
            }
            if !global.quiet {
                tell(&imported, global.verbose > 0);
            }
        }
    }
    Ok(Exit::Done)
}

/// The folder of all models: as told, as the other profile has it, or in the home.
fn models(told: Option<&str>, like: Option<&Profile>) -> Result<String, CommandError> {
    let beside =
        like.and_then(|profile| profile.model.path.rsplit_once('/').map(|(folder, _)| folder.to_owned()));
    let home = || {
        std::env::var("HOME").ok().filter(|home| home.starts_with('/')).map(|home| format!("{home}/models"))
    };
    let models = told.map(str::to_owned).or(beside).or_else(home).unwrap_or_else(|| "/models".to_owned());
    let models = models.trim_end_matches('/');
    if models.starts_with('/') {
        Ok(models.to_owned())
    } else {
        Err(usage(&format!("`{models}` is not an absolute path"))
            .hint("name a folder that is the same on every node"))
    }
}

fn refused(file: &str, error: ImportError) -> CommandError {
    match error {
        ImportError::Yaml(error) => {
            CommandError::new(Exit::Usage, error.to_string()).details(&error.problems())
        }
        ImportError::Refused(refused) => {
            let place = refused.line.map_or(file.to_owned(), |line| format!("{file}:{line}"));
            let error = usage(&format!("{place}: {}", refused.message));
            match refused.hint {
                Some(hint) => error.hint(hint),
                None => error,
            }
        }
    }
}

/// The folder that a file is in, by its whole path where it has one.
fn folder(file: &Path) -> PathBuf {
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

/// What was not carried over, on standard error: the profile may be on its way into a file.
fn tell(imported: &Imported, all: bool) {
    let mut err = std::io::stderr().lock();
    let report = &imported.report;
    let mut section = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = writeln!(err, "{title}");
            for line in lines {
                let _ = writeln!(err, "  {line}");
            }
        }
    };
    section("to do:", report.to_do.clone());
    section("not carried over:", report.not_carried.iter().map(written).collect());
    if all {
        section("not needed:", report.not_needed.iter().map(written).collect());
    }
}
