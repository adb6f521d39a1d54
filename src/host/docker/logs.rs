//! A container's log as lines, each with Docker's time stamp in front, also where a progress bar
//! wrote `\r` within one of Docker's lines.

use bollard::container::LogOutput;
use bollard::errors::Error;
use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;

use crate::host::command::Lines;

/// Sends lines until the log or the interest in it ends. An error of the stream ends it too: who
/// follows asks for the container next.
pub(super) async fn pass_on(
    frames: impl Stream<Item = Result<LogOutput, Error>>,
    sender: &mpsc::Sender<String>,
) {
    let mut streams = [Stamped::default(), Stamped::default()];
    let mut frames = std::pin::pin!(frames);
    while let Some(Ok(frame)) = frames.next().await {
        let stream = usize::from(matches!(frame, LogOutput::StdErr { .. }));
        for line in streams[stream].push(frame.as_ref()) {
            if sender.send(line).await.is_err() {
                return;
            }
        }
    }
    for stream in &mut streams {
        if let Some(line) = stream.finish() {
            let _ = sender.send(line).await;
        }
    }
}

/// One of the two streams. Docker stamps each frame; a frame without a line's end (one of a line of
/// over 16 KiB) is continued by the next, whose stamp then stands in mid-line.
#[derive(Default)]
struct Stamped {
    stamp: String,
    lines: Lines,
    continued: bool,
}

impl Stamped {
    fn push(&mut self, frame: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        // A terminal's log comes in pieces of any size, so stamps are looked for line by line.
        for piece in frame.split_inclusive(|&byte| byte == b'\n') {
            let text = match piece.iter().position(|&byte| byte == b' ').map(|at| piece.split_at(at)) {
                Some((stamp, text)) if is_stamp(stamp) => {
                    if !self.continued {
                        self.stamp = String::from_utf8_lossy(stamp).into_owned();
                    }
                    &text[1..]
                }
                _ => piece,
            };
            self.continued = !piece.ends_with(b"\n");
            all.extend(self.lines.push(text).into_iter().map(|line| format!("{} {line}", self.stamp)));
        }
        all
    }

    fn finish(&mut self) -> Option<String> {
        self.lines.finish().map(|line| format!("{} {line}", self.stamp))
    }
}

/// Like `2026-11-30T15:52:21.123456789Z`.
fn is_stamp(word: &[u8]) -> bool {
    (20..=35).contains(&word.len())
        && word[4] == b'-'
        && word[10] == b'T'
        && word[..4].iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_stamp() {
        let (one, two) = ("2026-11-30T15:52:21.123456789Z", "2026-11-30T15:52:22.123456789Z");
        let check = |frames: &[String], wanted: &[String]| {
            let mut stream = Stamped::default();
            let mut lines: Vec<_> = frames.iter().flat_map(|frame| stream.push(frame.as_bytes())).collect();
            lines.extend(stream.finish());
            assert_eq!(lines, wanted);
        };
        check(&[format!("{one} a b\n"), format!("{two} \n")], &[format!("{one} a b"), format!("{two} ")]);
        check(&[format!("{one} 1%\r2%\r\n")], &[format!("{one} 1%"), format!("{one} 2%")]);
        check(&[format!("{one} long"), format!("{two} er\n")], &[format!("{one} longer")]);
        check(&[format!("{one} \u{1b}[32mgreen\u{1b}[0m")], &[format!("{one} \u{1b}[32mgreen\u{1b}[0m")]);
    }
}
