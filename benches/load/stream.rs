//! A server that streams answers as fast as it can, for measuring clients: `stream ADDRESS:PORT`. Plain std, a thread a
//! connection. Each token is one event in one HTTP chunk, as vLLM sends them; many go into one write.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

fn main() {
    let address = std::env::args().nth(1).expect("usage: stream ADDRESS:PORT");
    let listener = TcpListener::bind(&address).expect("the address can be listened at");
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || {
            let _ = serve(stream);
        });
    }
}

fn serve(stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body = String::from_utf8_lossy(&body);
        let path = first.split(' ').nth(1).unwrap_or_default();
        if path.ends_with("/models") {
            document(&mut writer, "application/json", r#"{"object":"list","data":[{"id":"fast","object":"model","max_model_len":1000000}]}"#)?;
        } else if path.ends_with("/book.txt") {
            document(&mut writer, "text/plain", &"The quick brown fox jumps over the lazy dog. ".repeat(4000))?;
        } else if path.ends_with("completions") && body.contains("\"stream\": true") | body.contains("\"stream\":true") {
            answer(&mut writer, path.contains("chat"), &body)?;
        } else if path.ends_with("completions") {
            document(&mut writer, "application/json", r#"{"id":"a","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Paris is the capital."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}}"#)?;
        } else {
            write!(writer, "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
        }
    }
}

fn document(writer: &mut TcpStream, kind: &str, text: &str) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", text.len());
    writer.write_all((head + text).as_bytes())
}

/// The number behind a field of the request, wherever it stands.
fn field(body: &str, name: &str) -> Option<usize> {
    let rest = body.split_once(&format!("\"{name}\":"))?.1.trim_start();
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn answer(writer: &mut TcpStream, chat: bool, body: &str) -> std::io::Result<()> {
    let tokens = field(body, "max_tokens").or_else(|| field(body, "max_completion_tokens")).unwrap_or(16);
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut out = head.as_bytes().to_vec();
    let event = |data: &str| format!("{:x}\r\ndata: {data}\n\n\r\n", data.len() + 8);
    let piece = |text: &str, finish: &str| {
        if chat {
            event(&format!(r#"{{"id":"chatcmpl-8f14e45fceea167a5a36dedd4bea2543","object":"chat.completion.chunk","created":1764540000,"model":"fast","choices":[{{"index":0,"delta":{{"content":"{text}"}},"logprobs":null,"finish_reason":{finish},"token_ids":null}}]}}"#))
        } else {
            event(&format!(r#"{{"id":"cmpl-8f14e45fceea167a5a36dedd4bea2543","object":"text_completion","created":1764540000,"model":"fast","choices":[{{"index":0,"text":"{text}","logprobs":null,"finish_reason":{finish},"stop_reason":null,"token_ids":null}}],"usage":null}}"#))
        }
    };
    let each = piece(" word", "null");
    for number in 1..=tokens {
        if number == tokens {
            out.extend_from_slice(piece(" end", "\"length\"").as_bytes());
        } else {
            out.extend_from_slice(each.as_bytes());
        }
        if out.len() > 32 << 10 {
            writer.write_all(&out)?;
            out.clear();
        }
    }
    let usage = format!(r#"{{"id":"a","object":"chat.completion.chunk","created":1764540000,"model":"fast","choices":[],"usage":{{"prompt_tokens":10,"total_tokens":{},"completion_tokens":{tokens}}}}}"#, tokens + 10);
    out.extend_from_slice(event(&usage).as_bytes());
    out.extend_from_slice(event("[DONE]").as_bytes());
    out.extend_from_slice(b"0\r\n\r\n");
    writer.write_all(&out)
}
