//! Server-sent events: bytes in, the data of events out. Pure.
//!
//! As the HTML standard has them: lines end with LF, CR LF or CR, a blank line ends an event, its `data` lines are one text,
//! lines that begin with a colon are comments. How the bytes were cut on their way makes no difference.
//! Names, identities and retries of events are left out: no OpenAI-compatible server means anything by them.

use memchr::memchr2;

/// An event longer than this is no event of a chat. Bytes.
const LONGEST: usize = 16 << 20;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Reader {
    /// The begin of a line whose end has not come.
    line: Vec<u8>,
    /// The data of the event that has not ended.
    data: Vec<u8>,
    /// Whether a `data` line came since the last event: it may be an empty one.
    any: bool,
    /// The last byte was CR: an LF next is of the same line end.
    after_cr: bool,
    /// A line has been read.
    begun: bool,
    /// Lines that are neither field, comment nor blank.
    strange: u64,
}

/// An event became too long to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl Reader {
    /// Takes bytes; `event` gets the data of each event that they complete, and says whether to go on.
    pub fn take(&mut self, mut bytes: &[u8], mut event: impl FnMut(&[u8]) -> bool) -> Result<(), TooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                self.line.extend_from_slice(bytes);
                return self.length();
            };
            self.after_cr = bytes[end] == b'\r';
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            bytes = rest;
            let go_on = if self.line.is_empty() {
                self.end_of_line(line, &mut event)
            } else {
                let mut whole = std::mem::take(&mut self.line);
                whole.extend_from_slice(line);
                let go_on = self.end_of_line(&whole, &mut event);
                whole.clear();
                self.line = whole;
                go_on
            };
            self.length()?;
            if !go_on {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The stream ended. An event whose blank line did not come is given all the same: some servers leave it out.
    pub fn end(&mut self, mut event: impl FnMut(&[u8]) -> bool) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.end_of_line(&line, &mut event);
        }
        self.end_of_line(b"", &mut event);
    }

    /// Lines that were none of an event stream.
    pub fn strange(&self) -> u64 {
        self.strange
    }

    fn end_of_line(&mut self, line: &[u8], event: &mut impl FnMut(&[u8]) -> bool) -> bool {
        let line = if self.begun { line } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) };
        self.begun = true;
        if line.is_empty() {
            let go_on = !std::mem::take(&mut self.any) || event(&self.data);
            self.data.clear();
            return go_on;
        }
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        match name {
            b"data" => {
                if self.any {
                    self.data.push(b'\n');
                }
                self.any = true;
                self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            }
            b"" | b"event" | b"id" | b"retry" => {}
            _ => self.strange += 1,
        }
        true
    }

    fn length(&self) -> Result<(), TooLong> {
        if self.line.len() > LONGEST || self.data.len() > LONGEST { Err(TooLong) } else { Ok(()) }
    }
}
