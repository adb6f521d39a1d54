//! `init`: looks at the nodes and writes a profile. Changes nothing on them.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use futures_util::future::join_all;
use jiff::Timestamp;

use super::change::usage;
use super::new_file::{SCHEMA, put, put_schema, refuse_early};
use super::{Global, Output, print, session, ssh_hosts};
use crate::cluster::facts::NodeFacts;
use crate::config;
use crate::error::{CommandError, Exit, in_full};
use crate::host::{self, Host, HostError, SshOptions};
use crate::init::draft::{Draft, Seen, draft, node_names};
use crate::init::fabric::{Choice, Wanted, choose};
use crate::init::pick::{ImageChoice, ModelChoice};
use crate::init::survey::{NodeSurvey, survey};
use crate::init::{look, pick, render, write};
use crate::profile::{DeploymentName, not_for_ssh};
use crate::report::json;

/// Looks at the nodes and writes a profile: fabric addresses, model, image, engine settings. Changes nothing on them.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sparkctl init spark1 spark2\n  sparkctl init local 192.168.200.13 --model \
                        Qwen/Qwen3.5-122B-A10B-FP8 -o qwen.yaml"
)]
pub struct InitArgs {
    /// The nodes as `ssh` knows them, the head first; `local` is this machine. Left out, the hosts of the ssh
    /// configuration are offered.
    #[arg(value_name = "HOST")]
    hosts: Vec<String>,
    /// The model: OWNER/NAME on the Hub, the name of a folder, or its whole path; left out, the only one there is.
    #[arg(long, value_name = "ID|PATH")]
    model: Option<String>,
    /// The engine's image; left out, the only one there is.
    #[arg(long, value_name = "REFERENCE")]
    image: Option<String>,
    /// The fabric: a subnet, or an address for each node with commas between; left out, what is found to be one.
    #[arg(long, value_name = "SUBNET|ADDRESS,...")]
    fabric: Option<Wanted>,
    /// The deployment's name; left out, after the model.
    #[arg(long, value_name = "NAME")]
    name: Option<DeploymentName>,
    /// A further folder on the nodes to look for models in; may be given more than once.
    #[arg(long, value_name = "FOLDER")]
    models: Vec<String>,
    /// The file to write; left out, NAME.yaml in this folder.
    #[arg(short = 'o', long = "file", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Writes over a file that is there.
    #[arg(long)]
    force: bool,
    /// Where an editor finds the schema of profiles, a file or a URL; left out, it is written beside the profile.
    #[arg(long, value_name = "FILE|URL")]
    schema: Option<String>,
}

/// `sparkctl init`.
pub async fn run(args: InitArgs, global: &Global) -> Result<Exit, CommandError> {
    if let Some(file) = &args.file {
        refuse_early(file, args.force)?;
    }
    let (user, hosts) =
        addressed(if args.hosts.is_empty() { ask_for_hosts(global)? } else { args.hosts.clone() })?;
    let (seen, errors) = look_at(&hosts, user.as_deref(), &args, global).await?;
    let mut screen = Screen { global, document: serde_json::Map::new() };
    screen.put("nodes", &seen.surveys, || render::nodes(&seen.surveys, Timestamp::now()));
    if !errors.is_empty() {
        return Err(screen.unreachable(&errors));
    }
    let Machines { hosts, mut facts, surveys } = seen;
    look::peers(&hosts, &mut facts, args.fabric.as_ref())
        .await
        .map_err(|errors| session::unreachable(&errors))?;
    let fabric = choose(&facts, args.fabric.as_ref());
    screen.put("fabric", &fabric, || render::fabric(&fabric));
    let Some(chosen) = &fabric.chosen else { return Err(screen.no_fabric(&fabric)) };

    let model = model(&facts, args.model.as_deref(), global)?;
    let image = image(&facts, args.image.as_deref(), global)?;
    screen.put("model", &model, String::new);
    screen.put("image", &image, || render::picks(&model, &image));
    let content = match &model.lies {
        Some((node, folder)) => {
            let host = hosts.iter().zip(&facts).find(|(_, facts)| facts.node == *node).map(|(host, _)| host);
            match host {
                Some(host) => look::content(host.as_ref(), folder)
                    .await
                    .map_err(|error| session::unreachable(&[error]))?,
                None => None,
            }
        }
        None => None,
    };
    let seen = Seen {
        facts: &facts,
        nodes: &surveys,
        user: user.as_deref(),
        fabric: chosen,
        model: &model,
        content: content.as_ref(),
        image: &image,
        name: args.name.as_ref(),
    };
    let draft = draft(&seen);
    let file = args.file.clone().unwrap_or_else(|| PathBuf::from(format!("{}.yaml", draft.profile.name)));
    let schema = args.schema.as_deref().unwrap_or(SCHEMA);
    let text = write::yaml(&seen, &draft, schema, &file.display().to_string());
    if draft.is_whole {
        // What is not valid is a mistake here, or in what a person named: not to be found out later.
        config::parse(&file.display().to_string(), &text)
            .map_err(|error| CommandError::new(Exit::Usage, error.to_string()).details(&error.problems()))?;
    }
    put(&file, &text, args.force)?;
    let beside = if args.schema.is_none() { put_schema(&file)? } else { None };
    screen.done(&draft, &file, beside.as_deref());
    Ok(Exit::Done)
}

/// The machines that answered.
struct Machines {
    hosts: Vec<Arc<dyn Host>>,
    facts: Vec<NodeFacts>,
    surveys: Vec<NodeSurvey>,
}

/// Where results go: at once for people, in one document at the end for programs.
struct Screen<'a> {
    global: &'a Global,
    document: serde_json::Map<String, serde_json::Value>,
}

impl Screen<'_> {
    fn put(&mut self, key: &str, value: &impl serde::Serialize, text: impl FnOnce() -> String) {
        match self.global.output {
            Output::Text => print(&text()),
            Output::Json => {
                self.document.insert(key.to_owned(), serde_json::to_value(value).unwrap_or_default());
            }
        }
    }

    fn done(mut self, draft: &Draft, file: &Path, schema: Option<&str>) {
        let file = file.display().to_string();
        self.put("profile", draft, String::new);
        self.put("schema", &schema, String::new);
        self.put("file", &file, || render::written(draft, &file, schema));
        if self.global.output == Output::Json {
            print(&format!("{}\n", json::document(&self.document)));
        }
    }

    fn unreachable(self, errors: &[HostError]) -> CommandError {
        let error = session::unreachable(errors);
        let told: Vec<_> = errors
            .iter()
            .map(|error| serde_json::json!({ "node": error.node(), "why": in_full(error) }))
            .collect();
        self.refused(error, "unreachable", &told)
    }

    fn no_fabric(self, choice: &Choice) -> CommandError {
        let refusal = choice.refusal.as_ref();
        let message = refusal.map_or("", |refusal| refusal.message.as_str());
        let error = CommandError::new(
            Exit::Refused,
            format!("error: no fabric was chosen, and nothing was written: {message}"),
        );
        let error = refusal.iter().flat_map(|refusal| &refusal.hints).fold(error, CommandError::hint);
        self.refused(error, "refusal", &choice.refusal)
    }

    /// What was seen up to here goes with the error, where programs read.
    fn refused(mut self, error: CommandError, key: &str, value: &impl serde::Serialize) -> CommandError {
        if self.global.output == Output::Text {
            return error;
        }
        self.put(key, value, String::new);
        error.details(&self.document)
    }
}

/// The user in front of the hosts, if any, and the hosts without it.
fn addressed(hosts: Vec<String>) -> Result<(Option<String>, Vec<String>), CommandError> {
    let mut users: Vec<String> = Vec::new();
    let mut bare: Vec<String> = Vec::new();
    let mut without = 0;
    for host in hosts {
        let (user, host) = match host.rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host.to_owned()),
            None => (None, host),
        };
        if let Some(why) = not_for_ssh(&host).or_else(|| user.as_deref().and_then(not_for_ssh)) {
            return Err(usage(&format!("`{host}` cannot be a host: {why}"))
                .hint("name each machine as you would for `ssh`"));
        }
        let host = if host == "localhost" || host == "127.0.0.1" { "local".to_owned() } else { host };
        match user {
            Some(user) if !users.contains(&user) => users.push(user),
            None if host != "local" => without += 1,
            _ => {}
        }
        if bare.contains(&host) {
            return Err(usage(&format!("`{host}` is named twice")).hint("each node is a machine of its own"));
        }
        bare.push(host);
    }
    if users.len() > 1 || (without > 0 && !users.is_empty()) {
        return Err(usage("a profile has one user for all nodes")
            .hint("write the users into your ssh configuration, and the hosts without them here"));
    }
    Ok((users.pop(), bare))
}

async fn look_at(
    names: &[String],
    user: Option<&str>,
    args: &InitArgs,
    global: &Global,
) -> Result<(Machines, Vec<HostError>), CommandError> {
    let options = SshOptions { config_file: global.ssh_config.clone() };
    let unnamed: Vec<_> = names.iter().map(|host| (host.clone(), String::new())).collect();
    let first_names = node_names(&unnamed);
    let connecting =
        names.iter().zip(&first_names).map(|(host, name)| host::connect_to(name, host, user, &options));
    let (mut hosts, mut addresses, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for (name, result) in names.iter().zip(join_all(connecting).await) {
        match result {
            Ok(host) => {
                hosts.push(host);
                addresses.push(name.clone());
            }
            Err(error) => errors.push(error),
        }
    }
    let mut machines = Machines { hosts: Vec::new(), facts: Vec::new(), surveys: Vec::new() };
    let mut addressed_as = Vec::new();
    let results = look::machines(&hosts, &args.models).await;
    for ((host, address), result) in hosts.into_iter().zip(addresses).zip(results) {
        match result {
            Ok(facts) => {
                addressed_as.push((address, facts.system.hostname.clone()));
                machines.hosts.push(host);
                machines.facts.push(facts);
            }
            Err(error) => errors.push(error),
        }
    }
    for (facts, name) in machines.facts.iter_mut().zip(node_names(&addressed_as)) {
        facts.node = name;
    }
    one_machine_once(&machines.facts, &addressed_as)?;
    machines.surveys =
        machines.facts.iter().zip(&addressed_as).map(|(facts, (host, _))| survey(facts, host)).collect();
    Ok((machines, errors))
}

/// Two names of one machine are a mistake.
fn one_machine_once(facts: &[NodeFacts], addressed_as: &[(String, String)]) -> Result<(), CommandError> {
    for (index, one) in facts.iter().enumerate() {
        let same = |other: &NodeFacts| {
            other.system.boot_id == one.system.boot_id && other.system.hostname == one.system.hostname
        };
        if let Some(other) = facts[..index].iter().position(same) {
            let (one, other) = (&addressed_as[index].0, &addressed_as[other].0);
            return Err(
                usage(&format!("`{other}` and `{one}` are the same machine")).hint("name each node once")
            );
        }
    }
    Ok(())
}

/// The model: as named, else the only one; on a terminal a person may choose.
fn model(facts: &[NodeFacts], wanted: Option<&str>, global: &Global) -> Result<ModelChoice, CommandError> {
    let choice = pick::model(facts, wanted);
    if choice.path.is_some() {
        return Ok(choice);
    }
    let complete: Vec<_> = choice.candidates.iter().filter(|candidate| candidate.found.complete).collect();
    let rows: Vec<_> = complete
        .iter()
        .map(|candidate| {
            let runs =
                candidate.runs_in.as_ref().map_or(String::new(), |name| format!("  (runs in `{name}`)"));
            format!("{}{runs}", candidate.found.path)
        })
        .collect();
    match ask("which model?", &rows, global)? {
        Some(index) => Ok(pick::model(facts, Some(&complete[index].found.path))),
        None => Ok(choice),
    }
}

/// The image, in the same way.
fn image(facts: &[NodeFacts], wanted: Option<&str>, global: &Global) -> Result<ImageChoice, CommandError> {
    if let Some(wanted) = wanted {
        wanted.parse::<crate::profile::ImageReference>().map_err(|why| usage(&why))?;
    }
    let choice = pick::image(facts, wanted);
    if choice.reference.is_some() {
        return Ok(choice);
    }
    let rows: Vec<_> = choice
        .candidates
        .iter()
        .map(|candidate| {
            let runs =
                candidate.runs_in.as_ref().map_or(String::new(), |name| format!("  (runs in `{name}`)"));
            format!("{}{runs}", candidate.reference)
        })
        .collect();
    match ask("which image?", &rows, global)? {
        Some(index) => Ok(pick::image(facts, Some(&choice.candidates[index].reference))),
        None => Ok(choice),
    }
}

/// Whether somebody is there to be asked.
fn can_ask(global: &Global) -> bool {
    global.output == Output::Text && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for one of the rows; an empty answer is none.
fn ask(question: &str, rows: &[String], global: &Global) -> Result<Option<usize>, CommandError> {
    if rows.is_empty() || !can_ask(global) {
        return Ok(None);
    }
    loop {
        let answer = question_and_answer(question, rows, "its number; nothing leaves it open")?;
        match answer.as_slice() {
            [] => return Ok(None),
            [one] if *one < rows.len() => return Ok(Some(*one)),
            _ => {}
        }
    }
}

fn ask_for_hosts(global: &Global) -> Result<Vec<String>, CommandError> {
    let hosts = ssh_hosts::hosts(global.ssh_config.as_deref());
    let refuse = || usage("no host was named").hint("sparkctl init HOST [HOST...]; `local` is this machine");
    if !can_ask(global) {
        let known = hosts.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err(if known.is_empty() {
            refuse()
        } else {
            refuse().hint(format!("your ssh configuration has: {known}"))
        });
    }
    let mut rows = vec!["local (this machine)".to_owned()];
    rows.extend(hosts.iter().cloned());
    loop {
        let question = "which are the nodes?";
        let answer = question_and_answer(question, &rows, "numbers with spaces between, the head first")?;
        if answer.is_empty() {
            return Err(refuse());
        }
        if answer.iter().all(|number| *number < rows.len()) {
            let name =
                |number: usize| if number == 0 { "local".to_owned() } else { hosts[number - 1].clone() };
            return Ok(answer.into_iter().map(name).collect());
        }
    }
}

/// Shows rows with numbers from 1, and gives what was answered, counted from 0.
fn question_and_answer(question: &str, rows: &[String], how: &str) -> Result<Vec<usize>, CommandError> {
    let failed = |error: io::Error| CommandError::new(Exit::Usage, format!("error: cannot ask: {error}"));
    let show = || -> io::Result<()> {
        let mut err = io::stderr().lock();
        writeln!(err, "{question}")?;
        for (number, row) in (1..).zip(rows) {
            writeln!(err, "  {number:2}  {row}")?;
        }
        write!(err, "{how}: ")?;
        err.flush()
    };
    show().map_err(failed)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(failed)?;
    Ok(numbers(&line))
}

/// Numbers from 1 in a line, counted from 0. A word that is none is a number beyond all rows.
fn numbers(line: &str) -> Vec<usize> {
    let number = |word: &str| {
        word.parse::<usize>().ok().and_then(|number| number.checked_sub(1)).unwrap_or(usize::MAX)
    };
    line.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_answered() {
        let cases: [(&str, &[usize]); 5] =
            [("", &[]), ("\n", &[]), ("2 1\n", &[1, 0]), ("1,3", &[0, 2]), ("0 spark1 -1", &[usize::MAX; 3])];
        for (line, expected) in cases {
            assert_eq!(numbers(line), expected, "{line:?}");
        }
    }
}
