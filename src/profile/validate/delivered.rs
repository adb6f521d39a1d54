//! What can be wrong with what is brought into the containers: placed files, secrets, and the commands that run ahead
//! of the engine. Whether the files are there is not asked here.

use super::engine::no_variable;
use super::{PlacedFile, Problems};
use crate::engine::OWN_TARGETS;
use crate::profile::{Engine, EnvValue, Hooks, Moment};

/// `files`.
pub(super) fn files(files: &[PlacedFile], problems: &mut Problems) {
    for (index, file) in files.iter().enumerate() {
        let at = |field: &str| format!("files[{index}].{field}");
        if file.source.trim().is_empty() || file.source.contains('\0') {
            problems.add(at("source"), "there is no path in it", "write the path of a file of this machine");
        }
        let target = file.target.as_str();
        if let Some((what, hint)) = no_target(target) {
            problems.add(at("target"), format!("`{target}` {what}"), hint);
            continue;
        }
        if let Some(own) = OWN_TARGETS.iter().find(|own| overlap(target, own)) {
            let hint = "choose a path of its own, e.g. below `/sparkctl`";
            problems.add(
                at("target"),
                format!("`{target}` would hide `{own}`, or be hidden by it, which sparkctl mounts"),
                hint,
            );
        }
        let mut before = files[..index].iter().enumerate();
        if let Some((other, same)) = before.find(|(_, other)| overlap(target, &other.target)) {
            let message = if same.target == target {
                format!("`{target}` is the target of `files[{other}]` as well")
            } else {
                format!("`{target}` and `{}` of `files[{other}]` lie in one another", same.target)
            };
            problems.add(at("target"), message, "each file has a place of its own");
        }
    }
}

/// Why `target` cannot be a file's place in a container.
fn no_target(target: &str) -> Option<(&'static str, &'static str)> {
    let mut parts = target.split('/').skip(1).peekable();
    if !target.starts_with('/') {
        Some(("is not an absolute path", "begin it with `/`: it is a path in the container"))
    } else if target.ends_with('/') {
        Some(("ends with `/`", "name the file, not its folder"))
    } else if parts.any(|part| part.is_empty() || part == "." || part == "..") {
        Some(("has `.`, `..` or `//` in it", "write the path without it"))
    } else if target.contains(|c: char| c.is_control()) {
        Some(("has a control character in it", "write it on one line"))
    } else if target.contains([':', ',']) {
        Some(("has `:` or `,` in it, which container mounts cannot have", "choose another name"))
    } else if ["/proc", "/sys", "/dev"].iter().any(|kernel| overlap(target, kernel)) {
        Some(("lies in a file system of the kernel's", "choose a path of its own, e.g. below `/sparkctl`"))
    } else {
        None
    }
}

/// Whether one path is the other, or lies below it.
fn overlap(one: &str, other: &str) -> bool {
    let below = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    below(one, other) || below(other, one)
}

/// `engine.before`.
pub(super) fn before(engine: &Engine, problems: &mut Problems) {
    for (index, command) in engine.before.iter().enumerate() {
        self::command(&format!("engine.before[{index}]"), command, problems);
    }
}

/// `hooks`.
pub(super) fn hooks(hooks: &Hooks, problems: &mut Problems) {
    for moment in [Moment::PreDeploy, Moment::PostReady, Moment::PostDeploy, Moment::OnFailure] {
        let Some(hook) = hooks.at(moment) else { continue };
        command(&format!("hooks.{moment}.command"), &hook.command, problems);
        if hook.timeout.is_zero() {
            problems.add(format!("hooks.{moment}.timeout"), "no command ends in no time", "write e.g. `60s`");
        }
    }
}

/// A command as a list of words.
fn command(path: &str, command: &[String], problems: &mut Problems) {
    if command.first().is_none_or(|program| program.trim().is_empty()) {
        problems.add(
            path.to_owned(),
            "there is no command in it",
            "write its words, e.g. `[\"bash\", \"/sparkctl/patch.sh\"]`",
        );
    } else if let Some(word) = command.iter().position(|word| word.contains('\0')) {
        problems.add(format!("{path}[{word}]"), "a NUL character cannot be in it", "");
    } else if let [only] = command
        && only.contains(char::is_whitespace)
    {
        let hint = format!("write each word by itself, or `[\"sh\", \"-c\", \"{only}\"]`");
        problems.add(
            path.to_owned(),
            format!("`{only}` is one word with a space in it, and no program is"),
            &hint,
        );
    }
}

/// Names of secrets: they stand in a file that a shell and Python read.
pub(super) fn secret_names(engine: &Engine, problems: &mut Problems) {
    for (name, _) in engine.env.iter().filter(|(_, value)| matches!(value, EnvValue::Secret(_))) {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let is_name = name.bytes().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit());
        if no_variable(name).is_none() && !is_name {
            problems.add_in_key(
                format!("engine.env.{name}"),
                format!("`{name}` cannot be a secret's variable: letters, digits and `_` may be in its name"),
                "",
            );
        }
    }
}
