//! Whatever comes, an answer is read to its end: no panic, and in no time.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn parse_in_time(bytes: &[u8]) {
    let begun = Instant::now();
    let _ = parse(Some(&"demo".parse().unwrap()), bytes);
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
}

fn machine() -> impl Strategy<Value = Vec<u8>> {
    (0..ALL.len()).prop_map(|at| ALL[at].replace('␀', "\0").into_bytes())
}

/// Every answer that is cut, at any of its lines, is known to be cut.
#[test]
fn a_cut_answer_is_never_taken_for_a_whole_one() {
    for text in ALL {
        for (at, _) in
            text.match_indices('\n').filter(|(at, _)| !text[*at..].starts_with("\n=== sparkctl end"))
        {
            if text[at..].contains("=== sparkctl end ===") {
                let why = read(&text[..at]).unwrap_err();
                assert!(why.starts_with("the answer was cut off after"), "{why}");
            }
        }
    }
}

#[test]
fn files_of_sshd_that_include_one_another_come_to_an_end() {
    let includes = "Include *.conf\n".repeat(200);
    let file = |number| format!("\n=== sparkctl sshd /etc/ssh/{number}.conf ===\n{includes}");
    let files: String = (0..20).map(file).collect();
    let text =
        format!("\n=== sparkctl sshd /etc/ssh/sshd_config ===\nInclude *.conf\nMaxSessions 3\n{files}");
    let sections = Sections::of(text.as_bytes());
    assert_eq!(sshd::sshd(&sections).unwrap().max_sessions, Some(3));
}

proptest! {
    #[test]
    fn bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        parse_in_time(&bytes);
    }

    #[test]
    fn bytes_in_every_section(text in machine(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut all = Vec::new();
        for line in text.lines().filter(|line| line.starts_with("=== sparkctl ")) {
            all.extend_from_slice(format!("\n{line}\n").as_bytes());
            all.extend_from_slice(&bytes);
        }
        parse_in_time(&all);
    }

    #[test]
    fn truncation(text in machine(), at in any::<prop::sample::Index>()) {
        parse_in_time(&text[..at.index(text.len())]);
        let mut ended = text[..at.index(text.len())].to_vec();
        ended.extend_from_slice(b"\n=== sparkctl end ===\n");
        parse_in_time(&ended);
    }

    #[test]
    fn flipped_bytes(mut text in machine(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        for (at, byte) in flips {
            let at = at.index(text.len());
            text[at] ^= byte;
        }
        parse_in_time(&text);
    }

    #[test]
    fn other_bytes_in_between(mut text in machine(), at in any::<prop::sample::Index>(), length in 0_usize..64, bytes in prop::collection::vec(any::<u8>(), 0..32)) {
        let at = at.index(text.len());
        let end = (at + length).min(text.len());
        text.splice(at..end, bytes);
        parse_in_time(&text);
    }

    #[test]
    fn lines_in_another_order(text in machine(), seed in any::<u64>()) {
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut lines: Vec<_> = text.lines().collect();
        let count = lines.len();
        for at in 0..count {
            let other = usize::try_from(seed.wrapping_mul(at as u64 + 7) % count as u64).unwrap();
            lines.swap(at, other);
        }
        parse_in_time((lines.join("\n") + "\n\n=== sparkctl end ===\n").as_bytes());
    }
}
