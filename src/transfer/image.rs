//! An image from one node to another: `docker save`, a stream over the fabric, `docker load`.
//!
//! No file in between, no SSH between the nodes, no compression: reading and writing the image is
//! the cost, not the wire. A load's success is not believed: afterwards the image is looked up by
//! content, and a container is made of it and removed. After a failure the names that the load
//! may have moved (the containerd store moves them even then) are put back.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::ends::{NO_LIMIT, ended, failed, listen, outcome, secret};
use super::python;
use crate::cluster::facts::Image;
use crate::container::ImageContent;
use crate::host::{Host, HostError, Running, Script};

/// How long one end may take to see that the other has failed.
const NOTICE: Duration = Duration::from_secs(15);
/// How long making a container may take; a containerd store may unpack then.
const CHECK: Duration = Duration::from_secs(600);

/// Which image, and by which addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageJob {
    /// What the giving node calls it. A name is better than an ID: the archive then carries it.
    pub image: String,
    /// What it is to be called on the taking node.
    pub reference: String,
    /// What it has to be.
    pub content: ImageContent,
    /// The giving node's address on the fabric.
    pub from_address: Ipv4Addr,
    /// The taking node's.
    pub to_address: Ipv4Addr,
    /// Its size as the giving node reports it: about what will be moved.
    pub bytes: u64,
}

/// What a transfer of an image moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImageReport {
    pub bytes: u64,
    pub seconds: f64,
}

/// Copies an image. `progress` hears of bytes so far, twice a second.
pub async fn copy_image(
    from: &dyn Host,
    to: &dyn Host,
    job: &ImageJob,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<ImageReport, HostError> {
    let begun = Instant::now();
    let before = to.images().await?;
    // A load takes a name from the image that had it, and a containerd store then drops that image
    // at once: give it another name first. What nothing needs is `prune`'s to remove.
    for name in names(job) {
        if let Some(old) = holder(&before, name).filter(|old| old.content != job.content) {
            to.tag_image(&old.id, &old.content.kept_as()).await?;
        }
    }
    let result = match stream(from, to, job, progress).await {
        Ok(bytes) => settle(from, to, job).await.map(|()| bytes),
        Err(error) => Err(error),
    };
    match result {
        Ok(bytes) => Ok(ImageReport { bytes, seconds: begun.elapsed().as_secs_f64() }),
        Err(error) => {
            // The first error is the one to tell; the next plan sees what is left.
            let _ = put_names_back(to, job, &before).await;
            Err(error)
        }
    }
}

/// Runs both ends; gives the bytes that came.
async fn stream(
    from: &dyn Host,
    to: &dyn Host,
    job: &ImageJob,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<u64, HostError> {
    let taking = format!("taking image `{}` from {}", job.reference, from.node());
    let giving = format!("giving image `{}` to {}", job.image, to.node());
    let secret = secret().map_err(|error| failed(from, &giving, format!("no random numbers: {error}")))?;
    let (give, take) = (job.from_address.to_string(), job.to_address.to_string());

    let script = Script::new("receive-image", python!("receive-image.py"), [&take, &give]);
    let script = script.input(format!("{secret}\n")).timeout(NO_LIMIT);
    let (load, port) = listen(to, script, &taking).await?;
    let script = Script::new("send-image", python!("send-image.py"), [&job.image, &give, &take, &port]);
    let sender = from.start(script.input(format!("{secret}\n")).timeout(NO_LIMIT)).await?;

    let Running { mut lines, end } = load;
    let mut sending = std::pin::pin!(ended(sender));
    let mut sent = None;
    let mut bytes = 0;
    let mut limit = std::pin::pin!(tokio::time::sleep(NO_LIMIT));
    loop {
        tokio::select! {
            line = lines.recv() => {
                let Some(line) = line else { break };
                if let Some(count) = line.strip_prefix("bytes ").and_then(|count| count.parse().ok()) {
                    bytes = count;
                    progress(count);
                }
            }
            result = &mut sending, if sent.is_none() => {
                // One that never came to connect leaves the other end waiting.
                if !matches!(result, Ok(None)) {
                    limit.as_mut().reset(tokio::time::Instant::now() + NOTICE);
                }
                sent = Some(result);
            }
            () = &mut limit => break,
        }
    }
    drop(lines);
    let received = outcome(end).await;
    let sent = match sent {
        Some(sent) => sent,
        // The taking end has ended: what the giving one still waits for will not come.
        None => match tokio::time::timeout(NOTICE, sending).await {
            Ok(sent) => sent,
            Err(_) => Ok(None),
        },
    };
    match (sent?, received?) {
        (None, None) => Ok(bytes),
        // Each end also complains when the other fails: the one that `docker` itself speaks of, or
        // that does not complain of the other, is the cause.
        (Some(words), received)
            if !words.starts_with("the other side")
                && !received.as_ref().is_some_and(|words| words.starts_with("docker")) =>
        {
            Err(failed(from, &giving, words))
        }
        (_, Some(words)) => Err(failed(to, &taking, full_disk(words))),
        (Some(words), None) => Err(failed(from, &giving, words)),
    }
}

fn full_disk(words: String) -> String {
    if words.contains("no space left on device") { format!("the disk is full: {words}") } else { words }
}

/// After a load: the right image is there, has its name, and is whole.
async fn settle(from: &dyn Host, to: &dyn Host, job: &ImageJob) -> Result<(), HostError> {
    let what = format!("loading image `{}`", job.reference);
    let images = to.images().await?;
    let Some(image) = images.iter().find(|image| image.content == job.content) else {
        let why = format!(
            "what came is not image content {} of {}; the image may have changed there",
            job.content,
            from.node()
        );
        return Err(failed(to, &what, why));
    };
    if !image.references.iter().any(|name| same_name(name, &job.reference)) {
        to.tag_image(&image.id, &job.reference).await?;
    }
    let check = Script::new("check-image", include_str!("check-image.sh"), [&image.id]).timeout(CHECK);
    let output = to.run(check).await?;
    if output.code == Some(0) {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(failed(to, &what, format!("it was loaded, but no container can be made of it: {}", full_disk(words))))
}

/// Gives the names that the load may have moved to the images that had them.
async fn put_names_back(to: &dyn Host, job: &ImageJob, before: &[Image]) -> Result<(), HostError> {
    let now = to.images().await?;
    for name in names(job) {
        let (old, new) = (holder(before, name), holder(&now, name));
        if old.map(|old| &old.id) == new.map(|new| &new.id) {
            continue;
        }
        // Takes what was loaded with it, where the name was its only one.
        if new.is_some() {
            to.run(untag(name)).await?;
        }
        if let Some(old) = old {
            to.tag_image(&old.id, name).await?;
            let kept = old.content.kept_as();
            if !old.references.iter().any(|name| same_name(name, &kept)) {
                to.run(untag(&kept)).await?;
            }
        }
    }
    Ok(())
}

/// The names that a load may move, each once.
fn names(job: &ImageJob) -> impl Iterator<Item = &str> {
    let other = (!same_name(&job.image, &job.reference)).then_some(&job.image);
    std::iter::once(&job.reference).chain(other).map(String::as_str)
}

fn untag(name: &str) -> Script {
    Script::new("untag-image", include_str!("untag-image.sh"), [name])
}

fn holder<'a>(images: &'a [Image], name: &str) -> Option<&'a Image> {
    images.iter().find(|image| image.references.iter().any(|held| same_name(held, name)))
}

/// Whether two names are one, as Docker reads them.
fn same_name(one: &str, other: &str) -> bool {
    let plain = |name: &str| {
        let name = name.strip_prefix("docker.io/").unwrap_or(name);
        let name = name.strip_prefix("library/").unwrap_or(name);
        let tagged = name.rsplit('/').next().is_some_and(|last| last.contains(':'));
        if tagged { name.to_owned() } else { format!("{name}:latest") }
    };
    plain(one) == plain(other)
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
