use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// A head that has everything, and others that have nothing.
fn fresh(nodes: usize, parts: usize) -> Vec<Vec<bool>> {
    (0..nodes).map(|node| vec![node == 0; parts]).collect()
}

fn took(passages: &[Passage]) -> u64 {
    passages.iter().map(|passage| passage.end).max().unwrap_or(0)
}

/// Steps that a doubling takes to reach all nodes.
fn doublings(nodes: usize) -> u64 {
    u64::from(nodes.next_power_of_two().trailing_zeros())
}

/// Replays a schedule up to `until`, with `dead` gone from then on: what every node has. Everything that a schedule must
/// not do is a failure.
fn replay(
    has: &[Vec<bool>],
    sizes: &[u64],
    lanes: usize,
    passages: &[Passage],
    until: u64,
) -> Vec<Vec<bool>> {
    let mut has = has.to_vec();
    let arrival = |has: &[Vec<bool>], node: usize, part: usize, at: u64| {
        has[node][part] || passages.iter().any(|p| p.to == node && p.part == part && p.end <= at)
    };
    for passage in passages {
        assert_eq!(passage.end - passage.begin, sizes[passage.part].max(1));
        assert_ne!(passage.from, passage.to);
        assert!(!has[passage.to][passage.part], "{passage:?} brings what is there");
        assert!(
            arrival(&has, passage.from, passage.part, passage.begin),
            "{passage:?} gives what is not there"
        );
        let at_once = |by: fn(&Passage) -> usize| {
            let during = |p: &&Passage| p.begin <= passage.begin && passage.begin < p.end;
            passages.iter().filter(during).filter(|p| by(p) == by(passage)).count()
        };
        assert!(at_once(|p| p.from) <= lanes && at_once(|p| p.to) <= lanes, "{passage:?} is one too many");
    }
    for passage in passages.iter().filter(|passage| passage.end <= until) {
        assert!(!has[passage.to][passage.part], "{passage:?} comes twice");
        has[passage.to][passage.part] = true;
    }
    has
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn everybody_ends_with_everything(
        others in proptest::collection::vec(proptest::collection::vec(any::<bool>(), 12), 0..9),
        sizes in proptest::collection::vec(0_u64..1000, 12),
        lanes in 1_usize..4,
    ) {
        let mut has = vec![vec![true; sizes.len()]];
        has.extend(others);
        let passages = schedule(&has, &sizes, lanes);
        let after = replay(&has, &sizes, lanes, &passages, u64::MAX);
        prop_assert!(after.iter().flatten().all(|has| *has));
        prop_assert!(passages.is_sorted_by_key(|passage| passage.begin));
        prop_assert_eq!(schedule(&has, &sizes, lanes), passages, "twice the same");
    }

    #[test]
    fn it_takes_little_longer_than_for_one_node(
        sizes in proptest::collection::vec(1_u64..1000, 1..60),
        nodes in 2_usize..40,
        lanes in 1_usize..4,
    ) {
        let (total, largest) = (sizes.iter().sum::<u64>(), *sizes.iter().max().unwrap());
        let took = took(&schedule(&fresh(nodes, sizes.len()), &sizes, lanes));
        let one = total.div_ceil(lanes as u64);
        prop_assert!(took <= one + (doublings(nodes) + 6) * largest, "{} for {}", took, one);
    }

    /// A node that is gone in the middle: the rest plan anew from what they have, and what that one would have passed on
    /// comes from others.
    #[test]
    fn a_node_that_fails_delays_little(
        sizes in proptest::collection::vec(1_u64..1000, 8..40),
        nodes in 3_usize..12,
        dead in 1_usize..12,
        when in 0.0..1.0,
    ) {
        let dead = dead.min(nodes - 1);
        let has = fresh(nodes, sizes.len());
        let passages = schedule(&has, &sizes, 1);
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some moment")]
        let when = (took(&passages) as f64 * when) as u64;
        let mut left = replay(&has, &sizes, 1, &passages, when);
        left.remove(dead);
        let again = schedule(&left, &sizes, 1);
        let after = replay(&left, &sizes, 1, &again, u64::MAX);
        prop_assert!(after.iter().flatten().all(|has| *has));
        let largest = sizes.iter().max().unwrap();
        let bound = took(&passages) + (doublings(nodes) + 6) * largest;
        prop_assert!(when + took(&again) <= bound, "{} + {} against {}", when, took(&again), took(&passages));
    }

    #[test]
    fn every_file_is_in_one_part(sizes in proptest::collection::vec(0_u64..1000, 0..80), least in 1_u64..3000) {
        let parts = parts(&sizes, least);
        let mut all = parts.concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..sizes.len()).collect::<Vec<_>>());
        for (at, part) in parts.iter().enumerate() {
            let bytes: u64 = part.iter().map(|file| sizes[*file]).sum();
            prop_assert!(bytes >= least || at + 1 == parts.len());
            prop_assert!(part.len() == 1 || bytes < 2 * least);
        }
    }
}

/// 39 shards of 3 GB and 11 small files, as one part: 119 GB as a model of today has them, in units of 100 MB.
fn model() -> Vec<u64> {
    let mut sizes = vec![30; 39];
    sizes.push(1);
    sizes
}

/// The table of docs/transfer.md, which is made of it.
#[test]
fn the_time_for_many_nodes_against_that_for_one() {
    const HEAD: &str =
        "| nodes that lack it | time against one node | from the head alone |\n| --- | --- | --- |\n";
    let sizes = model();
    let one: u64 = sizes.iter().sum();
    let mut rows = String::new();
    for workers in [1, 2, 3, 4, 7, 15, 31, 63, 127, 255, 511, 999] {
        let took = took(&schedule(&fresh(workers + 1, sizes.len()), &sizes, 1));
        #[expect(clippy::cast_precision_loss, reason = "a ratio of small numbers")]
        let ratio = took as f64 / one as f64;
        #[expect(clippy::cast_precision_loss, reason = "a ratio of small numbers")]
        let bound = 1.0 + (doublings(workers + 1) + 3) as f64 * 30.0 / one as f64;
        assert!(ratio <= bound, "{workers}: {ratio} is above {bound}");
        writeln!(rows, "| {workers} | {ratio:.2} | {workers} |").unwrap();
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/transfer.md");
    let text = std::fs::read_to_string(file).unwrap();
    let (before, rest) = text.split_once(HEAD).unwrap();
    // The table ends with the first line that is none of its own.
    let after: String = rest.split_inclusive('\n').skip_while(|line| line.starts_with('|')).collect();
    let wanted = format!("{before}{HEAD}{rows}{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, wanted).unwrap();
    } else {
        assert!(text == wanted, "docs/transfer.md is old: UPDATE_DOCS=1 cargo test --lib fanout");
    }
}

#[test]
fn each_part_leaves_the_head_once_where_others_can_pass_it_on() {
    let sizes = vec![10; 16];
    let passages = schedule(&fresh(4, sizes.len()), &sizes, 1);
    let by_head = passages.iter().filter(|passage| passage.from == 0).count();
    assert!(by_head <= 20, "{by_head} of {} come from the head", passages.len());
    assert_eq!(passages.len(), 48);
}
