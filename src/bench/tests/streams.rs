//! Event streams: however the bytes were cut, the answer is the same.

use proptest::prelude::*;

use crate::bench::answer::Answer;
use crate::bench::piece;
use crate::bench::result::{FailureKind, Request};
use crate::bench::sse::Reader;
use crate::bench::workload::Endpoint;

/// The data of the events of a stream that came in these pieces.
fn events(pieces: &[&[u8]]) -> Vec<String> {
    let mut reader = Reader::default();
    let mut all = Vec::new();
    let mut keep = |data: &[u8]| {
        all.push(String::from_utf8_lossy(data).into_owned());
        true
    };
    for piece in pieces {
        assert!(reader.take(piece, &mut keep).is_ok());
    }
    reader.end(&mut keep);
    all
}

fn chat(content: &str, finish: bool) -> String {
    let finish = if finish { "\"stop\"" } else { "null" };
    format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{content}\"}},\"finish_reason\":{finish}}}]}}\n\n"
    )
}

const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn answer(stream: &str, cut: Option<&str>) -> Request {
    let mut answer = Answer::new(Endpoint::Chat, false);
    answer.take(stream.as_bytes(), 1.0);
    answer.end(2.0, cut.map(str::to_owned)).0
}

fn kind(request: &Request) -> Option<FailureKind> {
    request.failure.as_ref().map(|failure| failure.kind)
}

#[test]
fn lines_end_in_three_ways_and_comments_are_nothing() {
    let cases: [(&str, &[&str]); 9] = [
        ("data: a\n\ndata: b\n\n", &["a", "b"]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
        ("data: a\r\rdata: b\r\r", &["a", "b"]),
        (": ping\n\n:\n\ndata: a\n\n: ping - 2026\n\n", &["a"]),
        ("data:a\ndata: b\n\n", &["a\nb"]),
        ("event: message\nid: 3\nretry: 5\ndata: a\n\n", &["a"]),
        ("\u{feff}data: a\n\n", &["a"]),
        ("data\n\n\n\n", &[""]),
        ("data: a", &["a"]),
    ];
    for (stream, wanted) in cases {
        assert_eq!(events(&[stream.as_bytes()]), wanted, "{stream:?}");
    }
}

proptest! {
    #[test]
    fn a_stream_is_the_same_wherever_it_is_cut(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "data: {\"choices\":[{\"delta\":{\"content\":\"é\"}}]}", "data: x", "data:", ": ping", "event: e", "junk",
                "\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\r\r", "data: [DONE]", "\u{feff}",
            ]),
            0..30,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let stream = parts.concat();
        let bytes = stream.as_bytes();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(events(&pieces), events(&[bytes]));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(events(&single), events(&[bytes]));
    }

    /// The short way says what the long way says, whatever came before.
    #[test]
    fn a_pattern_changes_nothing(
        events in prop::collection::vec(
            (
                prop::sample::select(vec!["a", "word", "é", "", "\\n", "\\\"", "\"}, {\"", "\u{1}", "a\",\"b\":\"c"]),
                prop::sample::select(vec!["content", "reasoning", "tool_calls", "role"]),
                prop::sample::select(vec!["null", "\"stop\""]),
                prop::sample::select(vec!["", ",\"usage\":null", ",\"usage\":{\"completion_tokens\":1}", ",\"error\":\"no\"", "}"]),
            ),
            1..12,
        ),
    ) {
        let mut pattern = piece::Pattern::default();
        for (text, field, finish, more) in events {
            let data = format!(
                "{{\"choices\":[{{\"delta\":{{\"{field}\":\"{text}\"}},\"finish_reason\":{finish}}}]{more}}}"
            );
            prop_assert_eq!(pattern.read(data.as_bytes()), piece::read(data.as_bytes()), "{}", data);
        }
    }

    #[test]
    fn no_data_of_an_event_is_a_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = piece::read(&data);
        let _ = piece::error_words(&data);
    }
}

#[test]
fn an_event_without_end_is_given_up() {
    let mut reader = Reader::default();
    let block = vec![b'x'; 1 << 16];
    let taken = (0..1000).all(|_| reader.take(&block, |_| true).is_ok());
    assert!(!taken);
}

#[test]
fn each_way_to_end_is_told_apart() {
    let good = [&chat("a", false), &chat("b", true), USAGE, DONE].concat();
    let cases = [
        ("good", good.clone(), None, None),
        ("no mark at the end", [&chat("a", true), USAGE].concat(), None, None),
        ("no blank line at the end", [&chat("a", true), USAGE.trim_end()].concat(), None, None),
        ("cut behind all that counts", [&chat("a", true), USAGE].concat(), Some("reset"), None),
        ("cut in the middle", chat("a", false), Some("reset"), Some(FailureKind::Cut)),
        ("ended in the middle", chat("a", false), None, Some(FailureKind::Cut)),
        ("ended in an event", chat("a", false) + "data: {\"choi", None, Some(FailureKind::Cut)),
        ("no JSON", chat("a", false) + "data: {\"choi\n\n" + &good, None, Some(FailureKind::Malformed)),
        (
            "another shape",
            "data: {\"choices\":\"none\"}\n\n".to_owned() + DONE,
            None,
            Some(FailureKind::Malformed),
        ),
        ("lines that are no events", "{\"choices\":[]}\n{}\n".to_owned(), None, Some(FailureKind::Malformed)),
        (
            "an error",
            chat("a", false) + "data: {\"error\":{\"message\":\"died\"}}\n\n",
            None,
            Some(FailureKind::Error),
        ),
        (
            "an old error",
            "data: {\"object\":\"error\",\"message\":\"died\"}\n\n".to_owned(),
            None,
            Some(FailureKind::Error),
        ),
        ("no usage", [&chat("a", true), DONE].concat(), None, Some(FailureKind::NoUsage)),
        ("nothing at all", String::new(), None, Some(FailureKind::Empty)),
        ("only its end", DONE.to_owned(), None, Some(FailureKind::Empty)),
        (
            "only the role",
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n".to_owned()
                + USAGE
                + DONE,
            None,
            Some(FailureKind::Empty),
        ),
        ("only keep-alives", ": ping\n\n".repeat(5), None, Some(FailureKind::Empty)),
    ];
    for (name, stream, cut, wanted) in cases {
        let request = answer(&stream, cut);
        assert_eq!(kind(&request), wanted, "{name}: {request:?}");
        if wanted == Some(FailureKind::Error) {
            assert_eq!(request.failure.map(|failure| failure.message).as_deref(), Some("died"));
        }
    }
}

/// The times are those of the pieces with something in them; the tokens are the server's, whatever the pieces hold.
#[test]
fn times_are_those_of_pieces_and_tokens_those_of_usage() {
    let mut answer = Answer::new(Endpoint::Chat, true);
    let steps = [
        (0.5, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n".to_owned()),
        (0.6, ": ping\n\n".to_owned()),
        (1.0, "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n".to_owned()),
        // Nothing of a token in it: an incomplete character, say.
        (1.2, chat("", false)),
        (1.5, chat("three tokens at once", false)),
        (1.75, "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}\n\n".to_owned()),
        // The end by itself.
        (2.0, chat("", true)),
        (2.5, USAGE.replace("\"completion_tokens\":3", "\"completion_tokens\":9") + DONE),
    ];
    for (at, text) in &steps {
        answer.take(text.as_bytes(), *at);
    }
    assert!(answer.done());
    let (request, text, _) = answer.end(3.0, None);
    assert_eq!(request.failure, None);
    assert_eq!((request.ttft, request.seconds), (Some(1.0), 2.0));
    assert_eq!(request.itls, [0.5, 0.25]);
    assert_eq!((request.input_tokens, request.output_tokens), (Some(7), Some(9)));
    assert_eq!(text.as_deref(), Some("hmthree tokens at once"));
}

/// The completions endpoint sends a piece for each token, also where its text is empty.
#[test]
fn an_empty_text_is_a_token_of_a_completion() {
    let mut answer = Answer::new(Endpoint::Completions, false);
    answer.take(b"data: {\"choices\":[{\"text\":\"\"}]}\n\n", 1.0);
    answer.take(b"data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n", 1.5);
    let (request, ..) = answer.end(2.0, None);
    assert_eq!((request.failure, request.ttft, request.itls), (None, Some(1.0), vec![0.5]));
}

/// What makes the short way short: the second event is not read as JSON any more.
#[test]
fn events_that_differ_in_their_text_alone_are_told_by_their_bytes() {
    let event = |text: &str, finish: &str| {
        format!(
            "{{\"id\":\"a\",\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":{finish}}}],\"usage\":null}}"
        )
    };
    let mut pattern = piece::Pattern::default();
    let first = event(" one", "null");
    assert_eq!(pattern.text(first.as_bytes()), None);
    assert!(pattern.read(first.as_bytes()).is_ok());
    assert_eq!(pattern.text(event("zwei", "null").as_bytes()), Some("zwei"));
    for other in
        [event("zwei", "\"stop\""), event("", "null"), event("a\\n", "null"), event("a\",\"b\":\"", "null")]
    {
        assert_eq!(pattern.text(other.as_bytes()), None, "{other}");
    }
}
