//! sshd's configuration files: the first value of a keyword counts, and an `Include` stands for the
//! lines of its files. What `Match` blocks say is left out, and what is not in files is not known.

use super::Sections;
use crate::cluster::facts::Sshd;

const MAIN: &str = "/etc/ssh/sshd_config";

/// From the sections `sshd PATH`; `None` where the main file could not be read.
pub(super) fn sshd(sections: &Sections) -> Option<Sshd> {
    let files: Vec<_> = sections
        .beginning("sshd ")
        .map(|(path, body)| (path, String::from_utf8_lossy(body).into_owned()))
        .collect();
    files.iter().find(|(path, _)| *path == MAIN)?;
    let mut sshd = Sshd::default();
    read(MAIN, &files, &mut Vec::new(), &mut sshd);
    Some(sshd)
}

/// Each file is read once: what a second reading says comes too late anyhow, and files may include one another.
fn read<'a>(path: &'a str, files: &'a [(&'a str, String)], seen: &mut Vec<&'a str>, sshd: &mut Sshd) {
    let Some((_, text)) = files.iter().find(|(name, _)| *name == path) else { return };
    if seen.contains(&path) {
        return;
    }
    seen.push(path);
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (keyword, value) = line.split_once([' ', '\t', '=']).unwrap_or((line, ""));
        let value = value.trim_matches([' ', '\t', '=', '"']);
        let first = |slot: &mut Option<String>| {
            slot.get_or_insert_with(|| value.to_lowercase());
        };
        match keyword.to_ascii_lowercase().as_str() {
            "match" => return,
            "include" => {
                for pattern in value.split_whitespace() {
                    let pattern = if pattern.starts_with('/') {
                        pattern.to_owned()
                    } else {
                        format!("/etc/ssh/{pattern}")
                    };
                    for (name, _) in files.iter().filter(|(name, _)| matches(&pattern, name)) {
                        read(name, files, seen, sshd);
                    }
                }
            }
            "maxsessions" => sshd.max_sessions = sshd.max_sessions.or_else(|| value.parse().ok()),
            "maxstartups" => first(&mut sshd.max_startups),
            "allowtcpforwarding" => first(&mut sshd.tcp_forwarding),
            "allowstreamlocalforwarding" => first(&mut sshd.stream_local_forwarding),
            "disableforwarding" => first(&mut sshd.disable_forwarding),
            _ => {}
        }
    }
}

/// Whether a path matches a pattern with at most one star, which matches no slash.
fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((before, after)) => {
            let between = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            between.is_some_and(|between| !between.contains('/'))
        }
    }
}
