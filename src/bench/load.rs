//! The load: requests begun when they are due, and what became of each.
//!
//! It is put on by one thread with a runtime of its own, which does nothing else: so a request waits for no other work of
//! sparkctl, what the client costs is that thread's CPU time, and how late it is can be measured.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, sleep_until};

use super::arrival;
use super::client::{Client, Connection};
use super::counters::{self, Counters};
use super::metrics::Distribution;
use super::notes;
use super::piece::Usage;
use super::prepare::{self, Ready};
use super::prompts::Prompts;
use super::request::{self, Asked};
use super::result::{ClientDelay, FORMAT, Load, Note, Point, PrefixCache, Report, Request, Run, Subject};
use super::workload::{Order, whole_number};
use crate::delivery::secret::Secret;

/// Where the load goes.
#[derive(Debug, Clone)]
pub struct Target {
    /// What the report says of it; `subject.url` is where requests go, unless there is a socket.
    pub subject: Subject,
    /// A socket of this machine that leads there: a port of a node that only ssh reaches.
    pub socket: Option<PathBuf>,
    /// Sent as `Authorization: Bearer`.
    pub key: Option<Secret>,
}

/// How far a bench is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    /// A run at this load begins, by its number; 0 is warm-up.
    Begun { load: Load, run: u32 },
    /// So many requests of it ended, so many of these failed, so many are under way.
    Requests { done: usize, failed: usize, under_way: usize },
}

/// Why there is no report at all.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("`{0}` is no address of an endpoint")]
    Address(String),
    #[error("`{0}` is encrypted, and a bench speaks plain HTTP only")]
    Encrypted(String),
    #[error("the endpoint refused the first request: {0}")]
    Refused(String),
    #[error("the endpoint did not answer the first request: {0}")]
    NoAnswer(String),
    #[error("the load cannot be begun")]
    Begin(#[source] std::io::Error),
    #[error("the load ended unexpectedly")]
    Lost,
}

/// How often progress is told.
const TOLD: Duration = Duration::from_millis(250);
/// How often the client looks whether it is late itself.
const LOOK: Duration = Duration::from_millis(10);
/// What a timer may be late without anybody's fault: its grain.
const GRAIN: f64 = 0.002;
/// A pause behind a failure, or a server that refuses at once would be asked without end.
const PAUSE: Duration = Duration::from_millis(100);
/// Places of warm-up begin here: no run shares prompts with it.
const WARM_UP: u64 = 1 << 40;

/// Puts the load on and measures. Failed requests are part of the report; an error is only that nothing could be measured.
/// Dropping the future ends all requests.
pub async fn run(
    order: &Order,
    target: &Target,
    mut progress: impl FnMut(Progress) + Send,
) -> Result<Report, BenchError> {
    let (told, mut telling) = mpsc::unbounded_channel();
    let (mut done, mut result) = oneshot::channel();
    let (order, target) = (order.clone(), target.clone());
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(BenchError::Begin)?;
    let work = move || {
        runtime.block_on(async move {
            tokio::select! {
                report = whole(order, target, told) => { let _ = done.send(report); }
                () = done.closed() => {}
            }
        });
    };
    std::thread::Builder::new().name("load".to_owned()).spawn(work).map_err(BenchError::Begin)?;
    loop {
        tokio::select! {
            Some(what) = telling.recv() => progress(what),
            report = &mut result => return report.unwrap_or(Err(BenchError::Lost)),
        }
    }
}

async fn whole(
    order: Order,
    target: Target,
    told: mpsc::UnboundedSender<Progress>,
) -> Result<Report, BenchError> {
    let begun = Timestamp::now();
    let end = Instant::now() + order.limits.total;
    let client = Client::new(&target, order.limits.connect)?;
    // No other bench has had this mark, whatever its seed.
    let mark = format!("{:08x}", begun.as_nanosecond() >> 8 & 0xffff_ffff);
    let ready = prepare::prepare(&client, &order, &target.subject.model, &mark, end).await?;
    let mut notes = ready.notes.clone();
    let session = Arc::new(Session { client, order, ready, mark, end });
    let mut points = Vec::new();
    let repeat = session.order.repeat.max(1);
    let runs_wanted = session.order.loads.iter().flat_map(|_| 1..=repeat).count();
    let mut left = runs_wanted;
    'loads: for (number, load) in session.order.loads.iter().enumerate() {
        let warmup = session.order.warmup_of(load);
        if warmup > 0 {
            session.run(number, load, 0, Some(warmup), &told).await;
        }
        let mut runs = Vec::new();
        for run in 1..=repeat {
            // A run without requests has no figures. The first is always there, so that something is told.
            if Instant::now() >= end && left < runs_wanted {
                if !runs.is_empty() {
                    points.push(Point { load: *load, runs });
                }
                let message = format!(
                    "the limit of {:.0} s came first: {left} runs were not begun",
                    session.order.limits.total.as_secs_f64()
                );
                notes.push(Note { id: "time-limit".to_owned(), message });
                break 'loads;
            }
            runs.push(session.run(number, load, run, session.order.requests_of(load), &told).await);
            left -= 1;
        }
        points.push(Point { load: *load, runs });
    }
    notes.extend(notes::notes(&points, &session.order.workload));
    Ok(Report {
        format: FORMAT,
        sparkctl: env!("CARGO_PKG_VERSION").to_owned(),
        begun,
        subject: target.subject,
        workload: session.order.workload.to_string(),
        points,
        notes,
    })
}

/// What all runs of a bench share.
struct Session {
    client: Client,
    order: Order,
    ready: Ready,
    mark: String,
    end: Instant,
}

/// One run under way.
struct Running {
    session: Arc<Session>,
    /// Its own mark.
    mark: String,
    begun: Instant,
    /// No request begins after it.
    last_begin: Option<Instant>,
    /// The place of the first conversation.
    first: u64,
    next: AtomicU32,
    conversations: u32,
    asked: Mutex<Vec<Asked>>,
    /// How late requests were begun, in seconds.
    late: Mutex<Vec<f64>>,
    done: AtomicUsize,
    failed: AtomicUsize,
    under_way: AtomicUsize,
}

impl Session {
    async fn run(
        self: &Arc<Self>,
        number: usize,
        load: &Load,
        run: u32,
        requests: Option<u32>,
        told: &mpsc::UnboundedSender<Progress>,
    ) -> Run {
        let _ = told.send(Progress::Begun { load: *load, run });
        let before = self.counters().await;
        let turns = self.order.workload.turns.max(1);
        let running = Arc::new(Running {
            session: self.clone(),
            mark: format!("{}-{number}-{run}", self.mark),
            begun: Instant::now(),
            last_begin: self.order.duration.map(|limit| Instant::now() + limit),
            first: if run == 0 { WARM_UP } else { 0 },
            next: AtomicU32::new(0),
            conversations: requests.map_or(u32::MAX, |requests| requests.div_ceil(turns).max(1)),
            asked: Mutex::default(),
            late: Mutex::default(),
            done: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
        });
        let cpu = cpu_seconds();
        let looks = Mutex::new(Vec::new());
        tokio::select! {
            () = running.clone().put_on(load) => {}
            () = look(&looks) => {}
            () = running.tell(told) => {}
        }
        let cpu_seconds = cpu_seconds() - cpu;
        let after = self.counters().await;
        let looks = looks.into_inner().unwrap_or_else(PoisonError::into_inner);
        running.result(cpu_seconds, looks, &before, &after)
    }

    async fn counters(&self) -> Counters {
        let limit = Duration::from_secs(5);
        match self.client.ask(&mut None, "/metrics", None, limit).await {
            Ok((200, text)) => counters::read(&String::from_utf8_lossy(&text)),
            _ => Counters::default(),
        }
    }
}

/// Looks again and again how late the client is; it never ends.
async fn look(late: &Mutex<Vec<f64>>) {
    loop {
        let due = Instant::now() + LOOK;
        sleep_until(due.into()).await;
        let by = due.elapsed().as_secs_f64() - GRAIN;
        late.lock().unwrap_or_else(PoisonError::into_inner).push(by.max(0.0));
    }
}

impl Running {
    /// Tells how far it is; never ends.
    async fn tell(&self, told: &mpsc::UnboundedSender<Progress>) {
        let mut tick = interval(TOLD);
        loop {
            tick.tick().await;
            let count = |number: &AtomicUsize| number.load(Ordering::Relaxed);
            let (done, failed, under_way) = (count(&self.done), count(&self.failed), count(&self.under_way));
            let _ = told.send(Progress::Requests { done, failed, under_way });
        }
    }

    /// The next conversation's place, while there is one.
    fn take(&self) -> Option<u64> {
        let now = Instant::now();
        if now >= self.session.end || self.last_begin.is_some_and(|last| now >= last) {
            return None;
        }
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        (next < self.conversations).then(|| self.first + u64::from(next))
    }

    async fn put_on(self: Arc<Self>, load: &Load) {
        match *load {
            Load::Concurrency(at_once) => self.closed(at_once).await,
            Load::Rate { per_second, burstiness, max_concurrency } => {
                self.open(per_second, burstiness, max_concurrency).await;
            }
        }
    }

    /// So many at any time.
    async fn closed(self: Arc<Self>, at_once: u32) {
        let mut workers = JoinSet::new();
        for _ in 0..at_once.min(self.conversations) {
            let this = self.clone();
            workers.spawn(async move {
                let mut connection = None;
                let mut due = this.begun;
                while let Some(place) = this.take() {
                    let well = this.converse(place, due, &mut connection).await;
                    due = Instant::now();
                    if !well {
                        sleep(PAUSE).await;
                        due += PAUSE;
                    }
                }
            });
        }
        while workers.join_next().await.is_some() {}
    }

    /// Each when it is due.
    async fn open(self: Arc<Self>, rate: f64, burstiness: Option<f64>, most: Option<u32>) {
        let count = match self.session.order.duration {
            Some(limit) => self.conversations.min(whole_number(limit.as_secs_f64() * rate)).max(1),
            None => self.conversations,
        };
        let due = arrival::due(rate, burstiness, count, self.session.order.workload.seed);
        let slots =
            Arc::new(Semaphore::new(most.map_or(Semaphore::MAX_PERMITS, |most| most.max(1) as usize)));
        let idle: Arc<Mutex<VecDeque<Connection>>> = Arc::default();
        let mut tasks = JoinSet::new();
        for seconds in due {
            let due = self.begun + Duration::from_secs_f64(seconds);
            sleep_until(due.min(self.session.end).into()).await;
            let Some(place) = self.take() else { break };
            let (this, slots, idle) = (self.clone(), slots.clone(), idle.clone());
            tasks.spawn(async move {
                let waits = slots.available_permits() == 0;
                let Ok(_slot) = slots.acquire().await else { return };
                let due = if waits { Instant::now() } else { due };
                let pool = || idle.lock().unwrap_or_else(PoisonError::into_inner);
                let mut connection = pool().pop_back();
                this.converse(place, due, &mut connection).await;
                if let Some(connection) = connection {
                    pool().push_back(connection);
                }
            });
            while tasks.try_join_next().is_some() {}
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Holds one conversation; false where a request of it failed, which ends it.
    async fn converse(&self, place: u64, due: Instant, connection: &mut Option<Connection>) -> bool {
        let session = &self.session;
        let prompts =
            Prompts { workload: &session.order.workload, text: &session.ready.text, mark: &self.mark };
        let script = prompts.script(place);
        let mut talk =
            request::Talk::new(session.order.workload.endpoint, &session.ready, script.system.as_deref());
        let turns = script.turns.len();
        let mut due = due;
        for (turn, (said, tokens)) in script.turns.into_iter().enumerate() {
            let body = talk.say(&said, tokens);
            let begun = Instant::now();
            let late = begun.saturating_duration_since(due).as_secs_f64();
            self.late.lock().unwrap_or_else(PoisonError::into_inner).push(late);
            self.under_way.fetch_add(1, Ordering::Relaxed);
            let ask = request::Ask {
                client: &session.client,
                limits: &session.order.limits,
                endpoint: session.order.workload.endpoint,
                keep: turn + 1 < turns,
                end: session.end,
            };
            let mut asked = ask.ask(&body, begun, connection).await;
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            self.done.fetch_add(1, Ordering::Relaxed);
            asked.request.start = begun.duration_since(self.begun).as_secs_f64();
            let failed = asked.request.failure.is_some();
            talk.heard(asked.text.take().as_deref().unwrap_or_default());
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
            if failed {
                self.failed.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            due = Instant::now();
        }
        true
    }

    fn result(&self, cpu_seconds: f64, looks: Vec<f64>, before: &Counters, after: &Counters) -> Run {
        let take = |list: &Mutex<Vec<f64>>| {
            std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner));
        asked.sort_by(|a, b| a.request.start.total_cmp(&b.request.start));
        let usages: Vec<Usage> = asked.iter().filter_map(|asked| asked.usage).collect();
        let requests: Vec<Request> = asked.into_iter().map(|asked| asked.request).collect();
        let begin = requests.first().map_or(0.0, |request| request.start);
        let ends = requests.iter().map(|request| request.start + request.seconds);
        let seconds = ends.fold(begin, f64::max) - begin;
        let begins = Distribution::new(take(&self.late));
        let looks = Distribution::new(looks);
        let p99 = |delays: &Distribution| delays.percentile(99.0).unwrap_or(0.0);
        Run {
            seconds,
            requests,
            client: ClientDelay {
                median_seconds: begins.median().unwrap_or(0.0),
                p99_seconds: p99(&begins).max(p99(&looks)),
                cpu_seconds,
            },
            prefix_cache: after.prefix_cache_since(before).or_else(|| told_cache(&usages)),
            speculation: after.speculation_since(before),
        }
    }
}

/// The prefix cache by what answers tell of it.
fn told_cache(usages: &[Usage]) -> Option<PrefixCache> {
    let told = usages.iter().filter_map(|usage| Some((usage.prompt_tokens?, usage.cached_tokens()?)));
    let sums = told.map(|(asked, hit)| (f64::from(asked), f64::from(hit)));
    let (asked, hit) = sums.reduce(|(asked, hit), (more, more_hit)| (asked + more, hit + more_hit))?;
    Some(PrefixCache { asked, hit })
}

/// CPU seconds of the calling thread.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).map_or(0.0, |time| time.as_secs_f64())
}
