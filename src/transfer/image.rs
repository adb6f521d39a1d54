//! An image from one node to others: `docker save`, a stream over the fabric to each, `docker load`.
//!
//! No file in between, no SSH between the nodes, no compression: reading and writing the image is
//! the cost, not the wire. Members of the archive whose content a taking node has are left out on
//! the way. A load's success is not believed: afterwards the image is looked up by content, and a
//! container is made of it and removed. Where a load of a part fails, the whole follows. After a
//! failure the name that the load may have moved (the containerd store moves it even then) is put
//! back, by the script on the node, and once more from here.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::{mpsc, watch};

use super::ends::{NO_LIMIT, failed, listen, outcome, secret};
use super::python;
use crate::cluster::facts::Image;
use crate::container::ImageContent;
use crate::error::in_full;
use crate::host::{Host, HostError, Running, Script};

/// How long one end may take to see that the other has failed.
const NOTICE: Duration = Duration::from_secs(15);
/// How long making a container may take; a containerd store may unpack then.
const CHECK: Duration = Duration::from_secs(600);

/// Which image, and what of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageJob {
    /// What it has to be; both nodes call it by sparkctl's own name for it.
    pub content: ImageContent,
    /// The giving node's address on the fabric.
    pub from_address: Ipv4Addr,
    /// Names of the archive's members that all taking nodes can do without.
    pub leave_out: Vec<String>,
}

/// A node that takes an image.
#[derive(Clone, Copy)]
pub struct Taker<'a> {
    pub host: &'a dyn Host,
    /// Its address on the fabric.
    pub address: Ipv4Addr,
}

/// What a transfer of an image moved.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageReport {
    /// Bytes that went over the wire to this node, in all attempts.
    pub bytes: u64,
    /// Members of the archive that were left out; none where it went in full.
    pub left_out: u64,
    /// Why a part was not enough, where the whole had to follow.
    pub not_enough: Option<String>,
    pub seconds: f64,
}

/// What came in one attempt.
#[derive(Debug, Clone, Copy, Default)]
struct Came {
    bytes: u64,
    left_out: u64,
}

/// Why nothing came of one, and whether it was the load that failed.
struct Failed {
    error: HostError,
    bytes: u64,
    of_load: bool,
}

/// Copies an image to nodes, all from one `docker save`. `progress` hears of bytes so far of each, by its place in `to`,
/// twice a second. One that fails does not keep the others from taking theirs.
pub async fn copy_image(
    from: &dyn Host,
    to: &[Taker<'_>],
    job: &ImageJob,
    progress: &mut (dyn FnMut(usize, u64) + Send),
) -> Vec<Result<ImageReport, HostError>> {
    let begun = Instant::now();
    let report = |came: Came, before: u64, not_enough| ImageReport {
        bytes: before + came.bytes,
        left_out: came.left_out,
        not_enough,
        seconds: begun.elapsed().as_secs_f64(),
    };
    let first = attempt(from, to, job, progress).await;
    let (mut results, mut again) = (Vec::new(), Vec::new());
    for (at, result) in first.into_iter().enumerate() {
        match result {
            Ok(came) => results.push(Some(Ok(report(came, 0, None)))),
            Err(failed) if failed.of_load && !job.leave_out.is_empty() => {
                again.push((at, failed));
                results.push(None);
            }
            Err(failed) => results.push(Some(Err(failed.error))),
        }
    }
    if !again.is_empty() {
        let whole = ImageJob { leave_out: Vec::new(), ..job.clone() };
        let takers: Vec<_> = again.iter().map(|(at, _)| to[*at]).collect();
        let places: Vec<_> = again.iter().map(|(at, _)| *at).collect();
        let second = attempt(from, &takers, &whole, &mut |at, bytes| progress(places[at], bytes)).await;
        for ((at, before), result) in again.into_iter().zip(second) {
            let why = in_full(&before.error);
            results[at] =
                Some(result.map(|came| report(came, before.bytes, Some(why))).map_err(|failed| failed.error));
        }
    }
    results.into_iter().flatten().collect()
}

/// One stream; each node that took it is looked at afterwards, and put back as it was where it failed.
async fn attempt(
    from: &dyn Host,
    to: &[Taker<'_>],
    job: &ImageJob,
    progress: &mut (dyn FnMut(usize, u64) + Send),
) -> Vec<Result<Came, Failed>> {
    let name = job.content.kept_as();
    let before = join_all(to.iter().map(|taker| taker.host.images())).await;
    let came = stream(from, to, job, progress).await;
    let settled = to.iter().zip(before).zip(came).map(|((taker, before), came)| {
        let name = &name;
        async move {
            let result = match came {
                Ok(came) => settle(from, taker.host, job).await.map(|()| came).map_err(|error| Failed {
                    of_load: matches!(error, HostError::Failed { .. }),
                    bytes: came.bytes,
                    error,
                }),
                Err(failed) => Err(failed),
            };
            if let (Err(_), Ok(before)) = (&result, &before) {
                // The first error is the one to tell; the next plan sees what is left.
                let _ = put_name_back(taker.host, name, before).await;
            }
            result
        }
    });
    join_all(settled).await
}

/// Runs all ends; gives for each taking node what came.
async fn stream(
    from: &dyn Host,
    to: &[Taker<'_>],
    job: &ImageJob,
    progress: &mut (dyn FnMut(usize, u64) + Send),
) -> Vec<Result<Came, Failed>> {
    let name = job.content.kept_as();
    let others: Vec<_> = to.iter().map(|taker| taker.host.node().to_string()).collect();
    let giving = format!("giving image {} to {}", job.content, others.join(", "));
    let taking = format!("taking image {} from {}", job.content, from.node());
    let give = job.from_address.to_string();
    let all_failed = |error: HostError| -> Vec<Result<Came, Failed>> {
        let words = in_full(&error);
        let rest = to.iter().skip(1).map(|_| failed(from, &giving, words.clone()));
        let errors: Vec<_> = std::iter::once(error).chain(rest).collect();
        errors.into_iter().map(|error| Err(Failed { error, bytes: 0, of_load: false })).collect()
    };
    let secret = match secret() {
        Ok(secret) => secret,
        Err(error) => return all_failed(failed(from, &giving, format!("no random numbers: {error}"))),
    };

    let listening = to.iter().map(|taker| {
        let arguments = [taker.address.to_string(), give.clone(), name.clone()];
        let script = Script::new("receive-image", python!("receive-image.py"), arguments);
        listen(taker.host, script.input(format!("{secret}\n")).timeout(NO_LIMIT), &taking)
    });
    let (mut running, mut ports) = (Vec::new(), Vec::new());
    let mut results: Vec<Option<Result<Came, Failed>>> = Vec::new();
    for (at, listening) in join_all(listening).await.into_iter().enumerate() {
        results.push(match listening {
            Ok((load, port)) => {
                running.push((at, load));
                ports.push(format!("{}:{port}", to[at].address));
                None
            }
            Err(error) => Some(Err(Failed { error, bytes: 0, of_load: false })),
        });
    }
    if running.is_empty() {
        return results.into_iter().flatten().collect();
    }
    let arguments = [name, give].into_iter().chain(ports);
    let script = Script::new("send-image", python!("send-image.py"), arguments);
    let input = format!("{secret}\n{}\n", job.leave_out.join(" "));
    let sender = match from.start(script.input(input).timeout(NO_LIMIT)).await {
        Ok(sender) => sender,
        Err(error) => return all_failed(error),
    };
    let places: Vec<_> = running.iter().map(|(at, _)| *at).collect();
    let mut bytes = vec![0; to.len()];
    let (sent, received) = follow(sender, running, &mut |at, count| {
        bytes[at] = count;
        progress(at, count);
    })
    .await;
    let (sent, left_out) = match sent {
        Ok(sent) => sent,
        Err(error) => return all_failed(error),
    };
    for (at, received) in places.into_iter().zip(received) {
        let outcome = judge(sent.as_deref(), received, from, to[at].host, (&giving, &taking));
        results[at] = Some(match outcome {
            Ok(()) => Ok(Came { bytes: bytes[at], left_out }),
            Err((error, of_load)) => Err(Failed { error, bytes: bytes[at], of_load }),
        });
    }
    results.into_iter().flatten().collect()
}

/// What the giving end said of its failure, if it failed, and how many members it left out.
type Sent = Result<(Option<String>, u64), HostError>;

/// Waits for all ends, and lets none wait long for what will not come.
async fn follow(
    sender: Running,
    takers: Vec<(usize, Running)>,
    progress: &mut (dyn FnMut(usize, u64) + Send),
) -> (Sent, Vec<Result<Option<String>, HostError>>) {
    let (told, mut hear) = mpsc::unbounded_channel();
    let (stop, stopped) = watch::channel(false);
    let taking = takers.into_iter().map(|(at, running)| {
        let (told, mut stopped) = (told.clone(), stopped.clone());
        async move {
            let Running { mut lines, end } = running;
            loop {
                let line = tokio::select! {
                    line = lines.recv() => line,
                    _ = stopped.wait_for(|stopped| *stopped) => None,
                };
                let Some(line) = line else { break };
                if let Some(count) = line.strip_prefix("bytes ").and_then(|count| count.parse::<u64>().ok()) {
                    let _ = told.send((at, count));
                }
            }
            drop(lines);
            outcome(end).await
        }
    });
    let giving = async {
        let Running { mut lines, end } = sender;
        let mut left_out = 0;
        while let Some(line) = lines.recv().await {
            let members =
                line.strip_prefix("left-out ").and_then(|rest| rest.split(' ').next()?.parse().ok());
            left_out = members.unwrap_or(left_out);
        }
        outcome(end).await.map(|words| (words, left_out))
    };
    let mut sending = std::pin::pin!(giving);
    let mut receiving = std::pin::pin!(join_all(taking));
    let mut limit = std::pin::pin!(tokio::time::sleep(NO_LIMIT));
    let mut sent = None;
    let received = loop {
        tokio::select! {
            biased;
            Some((at, count)) = hear.recv() => progress(at, count),
            result = &mut sending, if sent.is_none() => {
                // A taking end that was dropped, or that nobody came to, waits for nothing.
                limit.as_mut().reset(tokio::time::Instant::now() + NOTICE);
                sent = Some(result);
            }
            received = &mut receiving => break received,
            () = &mut limit => {
                let _ = stop.send(true);
                limit.as_mut().reset(tokio::time::Instant::now() + NO_LIMIT);
            }
        }
    };
    while let Ok((at, count)) = hear.try_recv() {
        progress(at, count);
    }
    let sent = match sent {
        Some(sent) => sent,
        // All taking ends have ended: what the giving one still waits for will not come.
        None => match tokio::time::timeout(NOTICE, sending).await {
            Ok(sent) => sent,
            Err(_) => Ok((None, 0)),
        },
    };
    (sent, received)
}

/// Whether a node took the image; else whose fault it is, and whether the load's. Each end also complains when the
/// other fails: the one that `docker` itself speaks of, or that does not complain of the other, is the cause.
fn judge(
    sent: Option<&str>,
    received: Result<Option<String>, HostError>,
    from: &dyn Host,
    to: &dyn Host,
    (giving, taking): (&str, &str),
) -> Result<(), (HostError, bool)> {
    let received = received.map_err(|error| (error, false))?;
    let Some(received) = received else { return Ok(()) };
    let of_load = received.starts_with("docker load");
    match sent {
        Some(words) if !words.starts_with("the other side") && !of_load => {
            Err((failed(from, giving, words), false))
        }
        _ => {
            let full = is_full_disk(&received);
            let error =
                failed(to, taking, if full { format!("the disk is full: {received}") } else { received });
            Err((error, of_load && !full))
        }
    }
}

fn is_full_disk(words: &str) -> bool {
    words.contains("no space left on device")
}

/// After a load: the right image is there, has its name, and is whole.
async fn settle(from: &dyn Host, to: &dyn Host, job: &ImageJob) -> Result<(), HostError> {
    let name = job.content.kept_as();
    let what = format!("loading image {}", job.content);
    let images = to.images().await?;
    let Some(image) = images.iter().find(|image| image.content == job.content) else {
        let why = format!("what came is not that image; it may have changed on {}", from.node());
        return Err(failed(to, &what, why));
    };
    if !image.references.contains(&name) {
        to.tag_image(&image.id, &name).await?;
    }
    let check = Script::new("check-image", include_str!("check-image.sh"), [&image.id]).timeout(CHECK);
    let output = to.run(check).await?;
    if output.code == Some(0) {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let words = if is_full_disk(&words) { format!("the disk is full: {words}") } else { words };
    Err(failed(to, &what, format!("it was loaded, but no container can be made of it: {words}")))
}

/// Gives the name that the load may have moved to the image that had it.
async fn put_name_back(to: &dyn Host, name: &str, before: &[Image]) -> Result<(), HostError> {
    let now = to.images().await?;
    let (old, new) = (holder(before, name), holder(&now, name));
    if old.map(|old| &old.id) == new.map(|new| &new.id) {
        return Ok(());
    }
    // Takes what was loaded with it, where the name was its only one.
    if new.is_some() {
        to.run(untag(name)).await?;
    }
    if let Some(old) = old {
        to.tag_image(&old.id, name).await?;
    }
    Ok(())
}

fn untag(name: &str) -> Script {
    Script::new("untag-image", include_str!("untag-image.sh"), [name])
}

fn holder<'a>(images: &'a [Image], name: &str) -> Option<&'a Image> {
    images.iter().find(|image| image.references.iter().any(|held| held == name))
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
