//! Requests to an endpoint, one connection a request at a time. The only module that knows hyper.
//!
//! A connection is driven by the task that waits for its answer, so that a piece is read and timed with no other task between.
//! Every wait has an end: a limit on silence, and the end of the whole bench.

use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, Uri, header};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Sleep, sleep_until, timeout};

use super::answer::Answer;
use super::load::{BenchError, Target};
use super::piece::error_words;
use super::result::{FailureKind, RequestFailure};
use super::workload::Limits;
use crate::delivery::secret::Secret;
use crate::error::{chain, system_words};

/// How long a server may take to end a stream behind its last event; the connection is given up then.
const CLOSING: Duration = Duration::from_millis(100);
/// Of an error's body. Bytes.
const MOST_OF_ERROR: usize = 64 << 10;

/// Where requests go.
#[derive(Debug, Clone)]
pub struct Client {
    way: Way,
    authority: String,
    /// The address up to and with `/v1`, without host.
    base: String,
    key: Option<Secret>,
    connect: Duration,
}

#[derive(Debug, Clone)]
enum Way {
    Address(String, u16),
    Socket(PathBuf),
}

/// A connection between two requests.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` when it has ended.
    driver: Option<Driver>,
}

type Driver = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// How a streamed request went, as far as the transport tells.
pub enum Sent {
    /// A stream began, and all that came of it is in the answer; why it ended early, where it did.
    Streamed(Option<String>),
    /// It failed otherwise.
    Failed(RequestFailure),
    /// The server wants to be asked again.
    Busy { status: u16, after: Option<Duration>, said: String },
}

/// A wait that took too long.
enum Overdue {
    Silent,
    /// The bench ended first.
    Ended,
}

/// Watches over the silence of a server.
struct Patience {
    sleep: Pin<Box<Sleep>>,
    heard: Instant,
    stall: Duration,
    end: Instant,
}

impl Patience {
    fn new(stall: Duration, end: Instant) -> Self {
        let heard = Instant::now();
        Self { sleep: Box::pin(sleep_until((heard + stall).min(end).into())), heard, stall, end }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Overdue> {
        // What was heard in between only moves the end of the sleep when it is reached.
        while self.sleep.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if now >= self.end {
                return Poll::Ready(Overdue::Ended);
            }
            if now >= self.heard + self.stall {
                return Poll::Ready(Overdue::Silent);
            }
            let next = (self.heard + self.stall).min(self.end);
            self.sleep.as_mut().reset(next.into());
        }
        Poll::Pending
    }

    fn failure(&self, overdue: &Overdue, what: &str) -> RequestFailure {
        match overdue {
            Overdue::Silent => failure(FailureKind::Stalled, format!("{what}: no byte for {:?}", self.stall)),
            Overdue::Ended => failure(FailureKind::Unfinished, "the time limit of the bench came first"),
        }
    }
}

fn failure(kind: FailureKind, message: impl Into<String>) -> RequestFailure {
    RequestFailure { kind, message: message.into() }
}

impl Client {
    /// For a target; `connect` limits how long a connection may take.
    pub fn new(target: &Target, connect: Duration) -> Result<Self, BenchError> {
        let url = target.subject.url.trim_end_matches('/');
        let wrong = || BenchError::Address(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(BenchError::Encrypted(url.to_owned())),
            _ => return Err(wrong()),
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let way = match &target.socket {
            Some(path) => Way::Socket(path.clone()),
            None => Way::Address(
                host.trim_start_matches('[').trim_end_matches(']').to_owned(),
                uri.port_u16().unwrap_or(80),
            ),
        };
        let authority = uri.authority().ok_or_else(wrong)?.to_string();
        let base = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { way, authority, base, key: target.key.clone(), connect })
    }

    async fn open(&self) -> Result<Connection, RequestFailure> {
        let refused = |why: String| failure(FailureKind::Connect, why);
        let io = |error: std::io::Error| {
            refused(format!("cannot connect to {}: {}", self.authority, system_words(&error)))
        };
        let opening = async {
            match &self.way {
                Way::Address(host, port) => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(io)?;
                    stream.set_nodelay(true).map_err(io)?;
                    let (sender, driver) =
                        http1::handshake(TokioIo::new(stream)).await.map_err(|e| refused(words(&e)))?;
                    Ok(Connection { sender, driver: Some(Box::pin(driver)) })
                }
                Way::Socket(path) => {
                    // A full queue of a socket refuses at once, where that of an address would wait.
                    let stream = loop {
                        match UnixStream::connect(path).await {
                            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                                tokio::time::sleep(Duration::from_millis(2)).await;
                            }
                            opened => break opened.map_err(io)?,
                        }
                    };
                    let (sender, driver) =
                        http1::handshake(TokioIo::new(stream)).await.map_err(|e| refused(words(&e)))?;
                    Ok(Connection { sender, driver: Some(Box::pin(driver)) })
                }
            }
        };
        let late = || refused(format!("no connection to {} within {:?}", self.authority, self.connect));
        timeout(self.connect, opening).await.unwrap_or_else(|_| Err(late()))
    }

    fn request(&self, path: &str, body: Option<Bytes>) -> Result<Request<Full<Bytes>>, RequestFailure> {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, &self.authority);
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", key.reveal()));
        }
        let built = request.body(Full::new(body.unwrap_or_default()));
        // The error does not show the value.
        built.map_err(|error| failure(FailureKind::Connect, format!("no request can be made: {error}")))
    }

    /// Sends a request, over `connection` where that still holds, and waits for the head of its answer.
    async fn send(
        &self,
        connection: &mut Option<Connection>,
        path: &str,
        body: Option<&Bytes>,
        patience: &mut Patience,
    ) -> Result<(Connection, Response<Incoming>), RequestFailure> {
        loop {
            let (mut way, reused) = match connection.take() {
                Some(way) => (way, true),
                None => (self.open().await?, false),
            };
            let request = self.request(path, body.cloned())?;
            let sending = async {
                way.sender.ready().await?;
                way.sender.send_request(request).await
            };
            match drive(&mut way.driver, sending, patience).await {
                Ok(Ok(response)) => return Ok((way, response)),
                // A server may close a connection that was idle just as it is used again: that is nobody's failure.
                Ok(Err(_)) if reused => {}
                Ok(Err(error)) => {
                    let why = format!("the connection ended before an answer: {}", words(&error));
                    return Err(failure(FailureKind::Cut, why));
                }
                Err(overdue) => return Err(patience.failure(&overdue, "no answer")),
            }
        }
    }

    /// Asks for a stream, and puts what comes into `answer`, timed from `began`. The connection is kept where it can be.
    pub async fn stream(
        &self,
        connection: &mut Option<Connection>,
        body: &Bytes,
        answer: &mut Answer,
        began: Instant,
        limits: &Limits,
        end: Instant,
    ) -> Sent {
        let mut patience = Patience::new(limits.stall, end);
        let path = format!("{}{}", self.base, answer.endpoint().path());
        let sent = self.send(connection, &path, Some(body), &mut patience).await;
        let (mut way, response) = match sent {
            Ok(sent) => sent,
            Err(failure) => return Sent::Failed(failure),
        };
        let (head, mut incoming) = response.into_parts();
        let kind =
            head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let status = head.status.as_u16();
        if status != 200 || kind.starts_with("application/json") {
            let after =
                head.headers.get(header::RETRY_AFTER).and_then(|after| retry_after(after.to_str().ok()?));
            let mut said = Vec::new();
            let read = read(&mut way.driver, &mut incoming, &mut patience, |bytes| {
                said.extend_from_slice(&bytes[..bytes.len().min(MOST_OF_ERROR - said.len())]);
                said.len() < MOST_OF_ERROR
            });
            if let Ended::Overdue(overdue) = read.await {
                return Sent::Failed(patience.failure(&overdue, &format!("HTTP {status}, then nothing")));
            }
            let said = error_words(&said);
            return match status {
                200 => {
                    let why =
                        format!("a whole answer, no stream: {}", said.chars().take(80).collect::<String>());
                    Sent::Failed(failure(FailureKind::NotStreamed, why))
                }
                429 | 503 => Sent::Busy { status, after, said },
                _ => Sent::Failed(failure(FailureKind::Status, format!("HTTP {status}: {said}"))),
            };
        }
        let ended = read(&mut way.driver, &mut incoming, &mut patience, |bytes| {
            answer.take(bytes, began.elapsed().as_secs_f64())
        });
        match ended.await {
            Ended::Enough if answer.done() => {
                // The end of the body, which makes the connection fit for the next request.
                let mut closing = Patience::new(CLOSING, end);
                let rest = read(&mut way.driver, &mut incoming, &mut closing, |_| true).await;
                keep(way, connection, &rest);
                Sent::Streamed(None)
            }
            Ended::Enough => Sent::Streamed(None),
            Ended::Whole => {
                keep(way, connection, &Ended::Whole);
                Sent::Streamed(None)
            }
            Ended::Cut(why) => Sent::Streamed(Some(why)),
            Ended::Overdue(overdue) => Sent::Failed(patience.failure(&overdue, "the stream fell silent")),
        }
    }

    /// Asks for a document: GET, or POST of JSON where there is a body. `path` is absolute below the host, as `/metrics` is,
    /// or of the API where it begins with `/v1`.
    pub async fn ask(
        &self,
        connection: &mut Option<Connection>,
        path: &str,
        body: Option<Bytes>,
        limit: Duration,
    ) -> Result<(u16, Vec<u8>), RequestFailure> {
        let mut patience = Patience::new(limit, Instant::now() + limit);
        let root = self.base.strip_suffix("/v1").unwrap_or(&self.base);
        let (mut way, response) =
            self.send(connection, &format!("{root}{path}"), body.as_ref(), &mut patience).await?;
        let (head, mut incoming) = response.into_parts();
        let mut content = Vec::new();
        let ended = read(&mut way.driver, &mut incoming, &mut patience, |bytes| {
            content.extend_from_slice(bytes);
            true
        });
        match ended.await {
            ended @ (Ended::Whole | Ended::Enough) => {
                keep(way, connection, &ended);
                Ok((head.status.as_u16(), content))
            }
            Ended::Cut(why) => Err(failure(FailureKind::Cut, why)),
            Ended::Overdue(_) => Err(failure(FailureKind::Stalled, format!("no answer within {limit:?}"))),
        }
    }
}

fn keep(way: Connection, connection: &mut Option<Connection>, ended: &Ended) {
    if matches!(ended, Ended::Whole) && way.driver.is_some() {
        *connection = Some(way);
    }
}

/// How the reading of a body ended.
enum Ended {
    /// With the body.
    Whole,
    /// Nothing more was wanted.
    Enough,
    Cut(String),
    Overdue(Overdue),
}

/// Reads a body, piece by piece as they come, until `take` wants no more.
async fn read(
    driver: &mut Option<Driver>,
    body: &mut Incoming,
    patience: &mut Patience,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Ended {
    std::future::poll_fn(|context| {
        loop {
            poll_driver(driver, context);
            match Pin::new(&mut *body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Some(bytes) = frame.data_ref() {
                        patience.heard = Instant::now();
                        if !take(bytes) {
                            return Poll::Ready(Ended::Enough);
                        }
                    }
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Ended::Cut(words(&error))),
                Poll::Ready(None) => return Poll::Ready(Ended::Whole),
                Poll::Pending => return patience.poll(context).map(Ended::Overdue),
            }
        }
    })
    .await
}

/// Waits for `future`, which lives on the connection of `driver`.
async fn drive<T>(
    driver: &mut Option<Driver>,
    future: impl Future<Output = T>,
    patience: &mut Patience,
) -> Result<T, Overdue> {
    tokio::pin!(future);
    std::future::poll_fn(|context| {
        poll_driver(driver, context);
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => patience.poll(context).map(Err),
        }
    })
    .await
}

fn poll_driver(driver: &mut Option<Driver>, context: &mut Context<'_>) {
    // An error reaches whoever waits for the answer as well.
    if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready()) {
        *driver = None;
    }
}

/// The innermost reason is the telling one; hyper's own word says what was being done.
fn words(error: &hyper::Error) -> String {
    let all = chain(error);
    let text = all.last().cloned().unwrap_or_default();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// What `Retry-After` says: seconds, or a date.
fn retry_after(value: &str) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::parse(value.trim()).ok()?.timestamp();
    Some(Duration::try_from(at.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}
