//! The history: what can come back, and what has drifted.

use crate::harness::{Operator, Rig, answers_rightly};

#[test]
fn the_history_says_what_can_come_back_and_the_status_what_has_drifted() {
    let rig = Rig::clean();
    let mut operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    operator.edit("context_length: 2048", "context_length: 1024");
    operator.deploy().ended(0);
    operator.run(&["releases"]).ended(0).saying("deployed, can come back");

    rig.on("spark2", "docker update --restart no sparkctl-rig-stub-1");
    operator.run(&["status"]).ended(0).saying("rank 1 (spark2) does not come back with the node");
    operator.deploy().ended(0).saying("release 2 serves");
    rig.on("spark1", "echo more > /home/spark/models/tiny/more.txt");
    operator.run(&["releases"]).ended(0).saying("cannot come back").saying("weights-changed");
    operator.run(&["rollback"]).ended(3).saying("is not what release 1 was served from");
    rig.on("spark1", "rm /home/spark/models/tiny/more.txt");
    operator.run(&["rollback"]).ended(0).saying("--max-model-len 1024 → --max-model-len 2048");
    answers_rightly();
}
