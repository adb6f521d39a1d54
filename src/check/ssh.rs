//! The way to a node: why it was refused, and what its sshd and its user's shell get in the way with.

use super::{Finding, Member, Seen};
use crate::cluster::facts::{DockerFacts, NoDocker, Sshd};
use crate::profile::NodeName;

/// A node that could not be connected to. `host` is as the profile writes it, `why` in the words of the connection.
pub fn refused(node: &NodeName, host: &str, why: &str) -> Finding {
    let has = |words: &str| why.contains(words);
    let by_hand = format!("try it by hand: ssh {host} true");
    if has("host key") {
        let hint = if has("not known yet") {
            format!("log in once by `ssh {host}` and compare the key with the node's own")
        } else {
            format!(
                "compare it with the node's own (`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` there); if it is its own: ssh-keygen -R {host}"
            )
        };
        return Finding::error("ssh-host-key", Some(node), format!("`{host}`: {why}"), &hint);
    }
    if has("Permission denied") {
        let hint =
            format!("let your key in: ssh-copy-id {host}; a key with a passphrase has to be in ssh-agent");
        return Finding::error("ssh-auth", Some(node), format!("`{host}`: {why}"), &hint);
    }
    Finding::error("ssh-unreachable", Some(node), format!("`{host}`: {why}"), &by_hand)
}

/// A node that let us in and could not be asked.
pub fn unasked(node: &NodeName, why: &str) -> Finding {
    if why.contains("MaxSessions") {
        let hint = "set `MaxSessions 10` in /etc/ssh/sshd_config and reload sshd: sudo systemctl reload ssh";
        return Finding::error("ssh-sessions", Some(node), why.to_owned(), hint);
    }
    let hint = "look at the node by hand, then repeat";
    Finding::error("ssh-unasked", Some(node), why.to_owned(), hint)
}

pub(super) fn check(seen: &Seen, findings: &mut Vec<Finding>) {
    for member in &seen.nodes {
        if !member.node.is_local() {
            if let Some(sshd) = &member.facts.sshd {
                sessions(member, sshd, findings);
                startups(member, sshd, findings);
                forwarding(member, sshd, findings);
            }
            noise(member, findings);
        }
        shell(member, findings);
    }
}

/// Sessions that sparkctl may have open at once over one connection, and that a deploy cannot do without.
const SESSIONS: u32 = 8;
const LEAST_SESSIONS: u32 = 4;

fn sessions(member: &Member, sshd: &Sshd, findings: &mut Vec<Finding>) {
    let Some(sessions) = sshd.max_sessions.filter(|sessions| *sessions < SESSIONS) else { return };
    let found = if sessions < LEAST_SESSIONS { Finding::error } else { Finding::warning };
    findings.push(found(
        "ssh-sessions",
        Some(&member.node.name),
        format!("`MaxSessions {sessions}` in sshd's configuration; sparkctl wants {SESSIONS}"),
        "set `MaxSessions 10` in /etc/ssh/sshd_config and reload sshd: sudo systemctl reload ssh",
    ));
}

fn startups(member: &Member, sshd: &Sshd, findings: &mut Vec<Finding>) {
    let Some(startups) = &sshd.max_startups else { return };
    let first = startups.split(':').next().and_then(|first| first.parse::<u32>().ok());
    if first.is_some_and(|first| first < 3) {
        findings.push(Finding::warning(
            "ssh-startups",
            Some(&member.node.name),
            format!("`MaxStartups {startups}` in sshd's configuration"),
            "set `MaxStartups 10:30:100` in /etc/ssh/sshd_config and reload sshd: sudo systemctl reload ssh",
        ));
    }
}

fn forwarding(member: &Member, sshd: &Sshd, findings: &mut Vec<Finding>) {
    // `local` lets us forward, as what is forwarded goes from us to the node.
    let forbids = |word: &Option<String>| word.as_deref().is_some_and(|word| matches!(word, "no" | "remote"));
    let off = sshd.disable_forwarding.as_deref() == Some("yes");
    // That Docker was reached proves that its socket is forwarded, whatever the files say outside of `Match`.
    let reached = matches!(member.facts.docker, DockerFacts::Running(_));
    let mut settings = Vec::new();
    if off && !reached {
        settings.push("DisableForwarding yes".to_owned());
    }
    if let Some(word) = &sshd.stream_local_forwarding
        && forbids(&sshd.stream_local_forwarding)
        && !reached
    {
        settings.push(format!("AllowStreamLocalForwarding {word}"));
    }
    if let Some(word) = &sshd.tcp_forwarding
        && forbids(&sshd.tcp_forwarding)
    {
        settings.push(format!("AllowTcpForwarding {word}"));
    }
    let said = match &member.facts.docker {
        DockerFacts::Unusable(NoDocker::Failing { why }) if why.contains("forbids forwarding") => Some(why),
        _ => None,
    };
    let message = match (settings.is_empty(), said) {
        (false, _) => format!("sshd's configuration says `{}`", settings.join("`, `")),
        (true, Some(why)) => why.clone(),
        (true, None) => return,
    };
    findings.push(Finding::error(
        "ssh-forwarding",
        Some(&member.node.name),
        message,
        "set `AllowTcpForwarding yes` and `AllowStreamLocalForwarding yes` in /etc/ssh/sshd_config, remove `DisableForwarding`, and reload sshd: sudo systemctl reload ssh",
    ));
}

fn noise(member: &Member, findings: &mut Vec<Finding>) {
    if let Some(line) = &member.facts.user.greeting {
        findings.push(Finding::note(
            "ssh-noise",
            Some(&member.node.name),
            format!("a login without a terminal prints `{line}`"),
            "in ~/.bashrc (or the shell's own file) return early where the shell is not interactive: [[ $- == *i* ]] || return",
        ));
    }
}

fn shell(member: &Member, findings: &mut Vec<Finding>) {
    let Some(shell) = &member.facts.user.shell else { return };
    let name = shell.rsplit('/').next().unwrap_or_default();
    if !matches!(name, "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "mksh") {
        findings.push(Finding::note(
            "ssh-shell",
            Some(&member.node.name),
            format!("the login shell is {shell}"),
            "nothing to do for sparkctl; `chsh -s /bin/bash` changes it",
        ));
    }
}
