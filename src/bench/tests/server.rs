//! A small server for tests: it answers each request by what a function says of its path and body, fault and all.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the server does next.
#[derive(Debug, Clone)]
pub enum Step {
    Send(String),
    Wait(Duration),
    /// Keeps the connection, and says nothing any more.
    Silence,
    /// Ends its side of the connection, and keeps the other.
    HalfClose,
    /// Ends the connection.
    Close,
}

/// The head of a stream, chunked.
pub const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// One HTTP chunk.
pub fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// A whole answer of so many words, each an event in a chunk of its own.
pub fn good(words: u32) -> Vec<Step> {
    let mut out = STREAM.to_owned();
    for word in 1..=words {
        let finish = if word == words { "\"length\"" } else { "null" };
        out += &chunk(&format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"w \"}},\"finish_reason\":{finish}}}]}}\n\n"
        ));
    }
    out += &chunk(&usage(words));
    out += &chunk("data: [DONE]\n\n");
    vec![Step::Send(out + "0\r\n\r\n")]
}

pub fn usage(tokens: u32) -> String {
    format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":40,\"completion_tokens\":{tokens}}}}}\n\n")
}

/// A whole answer that is no stream.
pub fn document(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    vec![Step::Send(format!(
        "HTTP/1.1 {status}\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    ))]
}

/// Listens; the function gets path and body.
pub async fn serve(answer: impl Fn(&str, &str) -> Vec<Step> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let address = listener.local_addr().expect("there is an address");
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                // A client that goes away is no failure of the server.
                let _ = connection(stream, &*answer).await;
            });
        }
    });
    address
}

async fn connection(
    stream: TcpStream,
    answer: &(dyn Fn(&str, &str) -> Vec<Step> + Send + Sync),
) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        if read.read_line(&mut first).await? == 0 {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            read.read_line(&mut line).await?;
            let line = line.trim().to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        read.read_exact(&mut body).await?;
        let path = first.split(' ').nth(1).unwrap_or_default();
        for step in answer(path, &String::from_utf8_lossy(&body)) {
            match step {
                Step::Send(text) => write.write_all(text.as_bytes()).await?,
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Silence => std::future::pending::<()>().await,
                Step::HalfClose => {
                    write.shutdown().await?;
                    std::future::pending::<()>().await;
                }
                Step::Close => return Ok(()),
            }
        }
    }
}
