//! A node that is away when its group is stopped.

use std::time::Duration;

use crate::harness::{Operator, Rig, answers_rightly, eventually};

#[test]
fn what_comes_back_with_a_node_that_was_away_is_told_and_ended() {
    let rig = Rig::clean();
    let operator = Operator::with("rig-stub");
    operator.deploy().ended(0);
    rig.run(&["kill", "spark2"]);
    operator.run(&["stop"]).ended(7).saying("nothing runs on spark1").saying("spark2 ends by the next stop");
    assert!(rig.containers("spark1").is_empty());

    rig.run(&["boot", "spark2"]);
    eventually("the orphan is back", Duration::from_secs(60), || {
        rig.containers("spark2") == ["sparkctl-rig-stub-1 running"]
    });
    operator.run(&["status"]).ended(8).saying("spark2 runs rank 1 of release 1, which was stopped on");
    operator.deploy().ended(0).saying("release 2 serves");
    assert_eq!(rig.containers("spark2"), ["sparkctl-rig-stub-1 running"]);
    operator.run(&["status"]).ended(0);
    answers_rightly();
}
