//! The profile as a commented file: every value with why it is so, and what else there was. Pure.

use super::draft::{Draft, OPEN_IMAGE, OPEN_MODEL, Seen};
use super::pick::ToDo;
use crate::config::single;
use crate::plan::render::size;
use crate::profile::{EngineKind, Launch, NodeName};

/// Columns of a comment.
const WIDTH: usize = 112;

/// The file. `schema` is where an editor finds the schema; `file` is what the file will be called.
pub fn yaml(seen: &Seen<'_>, draft: &Draft, schema: &str, file: &str) -> String {
    let mut text = Text(String::new());
    text.line(&schema_line(schema));
    head(&mut text, seen, draft, file);
    let profile = &draft.profile;
    text.line("version: 1");
    text.comment("", "Also in the names of the containers.");
    text.line(&format!("name: {}", single(profile.name.as_str())));
    text.line("");
    cluster(&mut text, seen, draft);
    model(&mut text, seen, draft);
    image(&mut text, seen, draft);
    engine(&mut text, seen, draft);
    text.comment("", &format!("The endpoint: {}", profile.endpoint()));
    text.line("serve:");
    text.line(&format!("  port: {}", profile.serve.port));
    text.comment(
        "  ",
        "Everybody who reaches the port may use it. For a key: `api_key: { file: PATH }` in place of it;",
    );
    text.comment("  ", "`listen: fabric` or `loopback` narrows who reaches it.");
    text.line("  open: true");
    let name = single(profile.name.as_str());
    text.line(&format!("  # name: {name}  # the model's name in requests; left out, it is the deployment's"));
    text.0
}

/// The line by which editors with the YAML language server find the schema of a file.
pub fn schema_line(schema: &str) -> String {
    format!("# yaml-language-server: $schema={schema}")
}

struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// A comment, cut into lines at white space. Whatever the text has in it, nothing ends the comment.
    fn comment(&mut self, indent: &str, text: &str) {
        self.hanging(&format!("{indent}# "), &format!("{indent}# "), text);
    }

    fn hanging(&mut self, first: &str, next: &str, text: &str) {
        let mut line = first.to_owned();
        let mut is_empty = true;
        for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty())
        {
            if !is_empty && line.chars().count() + word.chars().count() > WIDTH {
                self.line(line.trim_end());
                next.clone_into(&mut line);
            }
            line.extend([word, " "]);
            is_empty = false;
        }
        self.line(line.trim_end());
    }

    /// A command stands on one line, so that it can be copied.
    fn command(&mut self, indent: &str, command: &str) {
        let command: String = command.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.line(&format!("{indent}#         {command}"));
    }
}

fn head(text: &mut Text, seen: &Seen<'_>, draft: &Draft, file: &str) {
    let nodes: Vec<_> = seen.nodes.iter().map(|node| node.name.as_str()).collect();
    let what = seen.model.name.as_deref().unwrap_or("A model");
    text.comment("", &format!("{what} on {}. Written by `sparkctl init`.", nodes.join(" and ")));
    text.comment("", &format!("Look first, then do: sparkctl plan {file}; sparkctl deploy {file}"));
    if !draft.to_do.is_empty() {
        text.line("#");
        text.comment("", "Before a deploy:");
        for ToDo { what, command } in &draft.to_do {
            text.hanging("#   - ", "#     ", what);
            if let Some(command) = command {
                text.command("", command);
            }
        }
    }
    text.line("");
}

fn cluster(text: &mut Text, seen: &Seen<'_>, draft: &Draft) {
    let cluster = &draft.profile.cluster;
    text.line("cluster:");
    if let Some(user) = &cluster.user {
        text.line(&format!("  user: {}", single(user)));
    }
    text.comment("  ", "The first is the head: rank 0, where the endpoint is.");
    text.line("  nodes:");
    let rows: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| {
            let (name, host) = (single(node.name.as_str()), single(&node.host));
            format!("    - {{ name: {name}, host: {host}, fabric: {} }}", node.fabric)
        })
        .collect();
    let width = rows.iter().map(|row| row.chars().count()).max().unwrap_or(0);
    for (row, end) in rows.iter().zip(&seen.fabric.ends) {
        text.line(&format!("{row:width$}  # {end}"));
    }
    let subnet = seen.fabric.subnet.map_or_else(|| "the fabric".to_owned(), |subnet| subnet.to_string());
    text.comment("  ", &format!("{subnet}: {}.", seen.fabric.because));
    text.line("");
}

fn model(text: &mut Text, seen: &Seen<'_>, draft: &Draft) {
    let model = seen.model;
    text.line("model:");
    text.comment("  ", "The folder, the same on every node; the head has it, and gives it to the others.");
    if let Some(path) = &model.path {
        text.line(&format!("  path: {}", single(path)));
    } else {
        text.comment("  ", &format!("Not chosen: {}. One of:", model.because));
        let mut any = false;
        for candidate in model.candidates.iter().filter(|candidate| candidate.found.complete) {
            let found = &candidate.found;
            let nodes: Vec<_> = candidate.nodes.iter().map(NodeName::as_str).collect();
            let runs = candidate.runs_in.as_ref().map_or(String::new(), |name| format!(", runs in `{name}`"));
            let what = format!("{} ({}, on {}{runs})", found.path, size(found.bytes), nodes.join(", "));
            text.hanging("  #   ", "  #     ", &what);
            any = true;
        }
        if !any {
            text.comment("  ", "  (none is on the nodes: hf download OWNER/NAME --local-dir FOLDER)");
        }
        text.line(&format!("  path: \"{OPEN_MODEL}\""));
    }
    if let Some(source) = &draft.profile.model.source {
        text.line(&format!("  source: {}", single(source)));
    }
    text.line("");
}

fn image(text: &mut Text, seen: &Seen<'_>, draft: &Draft) {
    text.line("image:");
    if seen.image.reference.is_some() {
        text.comment("  ", "At least one node has it; the others get it from there.");
        text.line(&format!("  reference: {}", single(draft.profile.image.reference.as_str())));
    } else {
        text.comment("  ", &format!("Not chosen: {}. One of:", seen.image.because));
        for candidate in &seen.image.candidates {
            let nodes: Vec<_> = candidate.nodes.iter().map(NodeName::as_str).collect();
            let runs = candidate.runs_in.as_ref().map_or(String::new(), |name| format!(", runs in `{name}`"));
            let what = format!("{} (on {}{runs})", candidate.reference, nodes.join(", "));
            text.hanging("  #   ", "  #     ", &what);
        }
        if seen.image.candidates.is_empty() {
            text.comment("  ", "  (none is on the nodes: docker pull IMAGE)");
        }
        text.line(&format!("  reference: \"{OPEN_IMAGE}\""));
    }
    text.line("");
}

fn engine(text: &mut Text, seen: &Seen<'_>, draft: &Draft) {
    let engine = &draft.profile.engine;
    let settings = &draft.settings;
    text.line("engine:");
    let kind = match engine.kind {
        EngineKind::Vllm => "vllm",
        EngineKind::Sglang => "sglang",
    };
    let open = if seen.image.reference.is_none() { "  # vllm or sglang, as the image has" } else { "" };
    text.line(&format!("  kind: {kind}{open}"));
    if draft.profile.cluster.nodes.len() > 1 && engine.launch() == Launch::Ray {
        text.line("  # launch: native  # for an image without Ray; left out, the nodes are a Ray cluster");
    }
    text.line(&format!("  tensor_parallel: {}  # one GPU a node", engine.tensor_parallel));
    for warning in &settings.warnings {
        text.comment("  ", &format!("Warning: {warning}."));
    }
    if let Some(note) = &settings.memory_note {
        text.comment("  ", &format!("Memory: {note}."));
    }
    match engine.context_length {
        Some(context) => text.line(&format!("  context_length: {context}")),
        None => text.line("  # context_length: 32768  # left out, it is the model's own"),
    }
    match engine.memory_fraction {
        Some(fraction) => text.line(&format!("  memory_fraction: {fraction:.2}")),
        None => text.line("  # memory_fraction: 0.80  # left out, it is the engine's default"),
    }
    if let Some(note) = &settings.parser_note {
        text.comment("  ", &format!("Parsers: {note}."));
    }
    let parsers = [("reasoning_parser", &engine.reasoning_parser), ("tool_parser", &engine.tool_parser)];
    for (field, parser) in parsers {
        match parser {
            Some(parser) => text.line(&format!("  {field}: {}", single(parser))),
            None if settings.parser_note.is_some() => {}
            None => text.line(&format!("  # {field}:  # what the model's card says")),
        }
    }
    if let Some(method) = &settings.drafts {
        text.comment("  ", "The model has layers that guess further tokens: worth a try once all else runs.");
        text.line(&format!("  # speculative: {{ method: {method}, tokens: 2 }}"));
    }
    for runs in seen.nodes.iter().flat_map(|node| &node.runs).filter(|runs| !runs.says.is_empty()) {
        let says: Vec<_> = runs.says.iter().map(|(field, value)| format!("{field}: {value}")).collect();
        text.comment("  ", &format!("Container `{}` has: {}", runs.name, says.join(", ")));
    }
    text.line("");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_comment() {
        let mut text = Text(String::new());
        text.comment("  ", "a\nversion: 2\r\u{2028}b");
        text.command("", "docker pull x\nname: y");
        assert!(text.0.lines().all(|line| line.trim_start().starts_with('#')), "{}", text.0);
        assert!(!text.0.contains(['\r', '\u{2028}']), "{:?}", text.0);
    }
}
