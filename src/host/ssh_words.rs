//! What `ssh` says, in people's words: pure, on its own text.

use std::error::Error as _;

use super::http::NoAnswer;

/// Why a login failed. The crate keeps the master's whole standard error as the source's text.
pub(super) fn connect(error: &openssh::Error, host: &str) -> String {
    let source = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    if let openssh::Error::Connect(io) | openssh::Error::Master(io) = error
        && io.kind() == std::io::ErrorKind::NotFound
        && io.raw_os_error().is_some()
    {
        return "`ssh` is not installed on this machine".to_owned();
    }
    login(&source, host)
}

/// Why a login failed, from the text that `ssh` wrote.
fn login(text: &str, host: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let Some(last) = lines.last() else {
        return "`ssh` failed and said nothing (is `LogLevel QUIET` set in its configuration?)".to_owned();
    };
    let has = |part: &str| lines.iter().any(|line| line.contains(part));
    let meaning = if has("IDENTIFICATION HAS CHANGED") {
        let place = lines.iter().find_map(|line| line.strip_prefix("Offending "));
        let (kind, place) = place.and_then(|text| text.split_once(" in ")).unwrap_or_default();
        let kind = kind.strip_suffix("key").unwrap_or_default();
        let place = place.trim_end_matches('.');
        let known = if place.is_empty() { "known_hosts".to_owned() } else { format!("`{place}`") };
        format!(
            "its {kind}host key is not the one in {known}; if the machine was installed anew, remove the old key by `ssh-keygen -R {host}`"
        )
    } else if has("host key is known for") || has("Host key verification failed") {
        format!("its host key is not known yet; log in once by `ssh {host}` and compare the key")
    } else if has("Permission denied (") {
        "it does not let us in: no key that `ssh` offers without asking is accepted".to_owned()
    } else if has("Could not resolve hostname") {
        "no host of this name is known".to_owned()
    } else if has("Connection refused") {
        "nothing answers on its SSH port".to_owned()
    } else if has("timed out") {
        "it does not answer".to_owned()
    } else if has("No route to host") || has("Network is unreachable") {
        "there is no way to it".to_owned()
    } else {
        return (*last).to_owned();
    };
    format!("{meaning} (ssh: {last})")
}

/// Why a session or a forward was not opened.
pub(super) fn session(error: &openssh::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    if text.contains("Session open refused by peer") {
        return "sshd refused a further session (`MaxSessions` in sshd_config; sparkctl wants 8)".to_owned();
    }
    text
}

/// Why the last forwarded connection failed, from the master's log.
pub(super) fn forward(log: &str) -> Option<NoAnswer> {
    let line = log.lines().rev().find(|line| line.contains("open failed: "))?;
    let (_, why) = line.split_once("open failed: ")?;
    let why = why.trim();
    if why.starts_with("administratively prohibited") || why.starts_with("unknown channel type") {
        return Some(NoAnswer::Other(format!(
            "sshd forbids forwarding (`AllowTcpForwarding`, `AllowStreamLocalForwarding`, `DisableForwarding` in sshd_config): {why}"
        )));
    }
    if why == "connect failed: open failed" {
        // All that sshd says of a Unix socket, whatever the reason.
        return Some(NoAnswer::Other(
            "sshd did not connect us to the socket: it forbids forwarding (`AllowStreamLocalForwarding`, `DisableForwarding` in sshd_config), or nothing listens there".to_owned(),
        ));
    }
    Some(match why.strip_prefix("connect failed: ").unwrap_or(why) {
        "Connection refused" => NoAnswer::Refused,
        other => NoAnswer::Other(other.to_lowercase()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins() {
        let check = |text: &str, wanted: &str| assert_eq!(login(text, "spark1"), wanted);
        check(
            "aurora@10.1.2.3: Permission denied (publickey,password).\n",
            "it does not let us in: no key that `ssh` offers without asking is accepted (ssh: aurora@10.1.2.3: Permission denied (publickey,password).)",
        );
        check(
            "connect to host 10.1.2.3 port 22: Connection timed out",
            "it does not answer (ssh: connect to host 10.1.2.3 port 22: Connection timed out)",
        );
        check(
            "connect to host 10.1.2.3 port 22: Connection refused",
            "nothing answers on its SSH port (ssh: connect to host 10.1.2.3 port 22: Connection refused)",
        );
        check(
            "Could not resolve hostname spark9: Name or service not known",
            "no host of this name is known (ssh: Could not resolve hostname spark9: Name or service not known)",
        );
        check(
            "No ED25519 host key is known for 10.1.2.3 and you have requested strict checking.\r\nHost key verification failed.\r\n",
            "its host key is not known yet; log in once by `ssh spark1` and compare the key (ssh: Host key verification failed.)",
        );
        check(
            "@@@@@\r\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n@@@@@\r\nOffending ED25519 key in /home/u/.ssh/known_hosts:12\r\nHost key verification failed.\r\n",
            "its ED25519 host key is not the one in `/home/u/.ssh/known_hosts:12`; if the machine was installed anew, remove the old key by `ssh-keygen -R spark1` (ssh: Host key verification failed.)",
        );
        check("Bad configuration option: foo", "Bad configuration option: foo");
        check("", "`ssh` failed and said nothing (is `LogLevel QUIET` set in its configuration?)");
    }

    #[test]
    fn forwards() {
        assert_eq!(forward(""), None);
        let refused = "channel 2: open failed: connect failed: Connection refused\n";
        assert_eq!(forward(refused), Some(NoAnswer::Refused));
        let forward = |log: &str| forward(log).unwrap().to_string();
        let why = forward("x\nchannel 3: open failed: administratively prohibited: open failed\n");
        assert!(why.starts_with("sshd forbids forwarding"), "{why}");
        let why = forward("channel 3: open failed: connect failed: open failed\n");
        assert!(why.contains("AllowStreamLocalForwarding"), "{why}");
    }
}
