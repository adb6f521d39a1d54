//! The ways to a node: `host: local`, aliases of the SSH configuration, login shells that are not sh.

use crate::harness::{Operator, Rig, answers_rightly};

/// Most people run sparkctl on the head itself.
#[test]
fn on_the_head_itself() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.edit("host: 10.77.0.11", "host: local").edit("host: 10.77.0.12", "host: 192.168.200.12");
    let profile = std::fs::read_to_string(operator.file()).expect("it was written");
    let key = crate::harness::ssh_config().with_file_name("id_ed25519");
    let key = std::fs::read_to_string(key).expect("the rig's key");
    rig.on("spark1", &format!("umask 077; cat > /home/spark/profile.yaml <<'EOF'\n{profile}\nEOF\nchown spark: /home/spark/profile.yaml"));
    rig.on("spark1", &format!("mkdir -p /home/spark/.ssh; cat > /home/spark/.ssh/id_ed25519 <<'EOF'\n{key}EOF\nchmod 600 /home/spark/.ssh/id_ed25519; ssh-keyscan -t ed25519 192.168.200.12 > /home/spark/.ssh/known_hosts 2>/dev/null; chown -R spark: /home/spark/.ssh"));
    let copied = std::process::Command::new("docker")
        .args(["cp", env!("CARGO_BIN_EXE_sparkctl"), "spark1:/usr/local/bin/sparkctl"])
        .status()
        .expect("docker runs");
    assert!(copied.success());
    let as_spark = |command: &str| Rig::try_run(&["exec", "spark1", "runuser", "-l", "spark", "-c", command]);
    let deployed = as_spark("sparkctl deploy profile.yaml");
    let said =
        String::from_utf8_lossy(&deployed.stderr).into_owned() + &String::from_utf8_lossy(&deployed.stdout);
    assert!(deployed.status.success(), "{said}");
    assert!(said.contains("release 1 serves"), "{said}");
    answers_rightly();
    let status = as_spark("sparkctl status");
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
    let stopped = as_spark("sparkctl stop");
    assert!(stopped.status.success());
}

#[test]
fn an_alias_and_a_login_shell_that_is_not_sh() {
    let rig = Rig::clean();
    rig.on("spark2", "printf '#!/bin/sh\\necho noise from a login shell\\nexec /bin/bash \"$@\"\\n' > /usr/local/bin/noisy; chmod 755 /usr/local/bin/noisy; usermod -s /usr/local/bin/noisy spark");
    let mut operator = Operator::with("rig-stub");
    operator.edit("host: 10.77.0.11", "host: spark1").edit("host: 10.77.0.12", "host: spark2");
    let said = operator.deploy();
    rig.on("spark2", "usermod -s /bin/bash spark");
    said.ended(0);
    answers_rightly();
}
