//! Weights from one node to another: rsync, served on the giving node and pulled by the taking one.
//!
//! Only the listed files come, links as what they lead to. A transfer that was cut continues where
//! it was. Who serves is bound to the fabric and knows one secret and one client's address.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::ends::{NO_LIMIT, ended, failed, listen, secret};
use super::python;
use crate::cluster::facts::ModelFile;
use crate::host::{Host, HostError, Output, Running, Script};

/// Which weights, and by which addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightsJob {
    /// The model's folder, the same on both nodes.
    pub path: String,
    /// The giving node's address on the fabric.
    pub from_address: Ipv4Addr,
    /// The taking node's.
    pub to_address: Ipv4Addr,
    /// What is to be there afterwards; nothing else is touched.
    pub files: Vec<ModelFile>,
    /// Bytes of these files.
    pub bytes: u64,
}

/// What a transfer of weights moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeightsReport {
    /// Bytes that came over the fabric.
    pub bytes: u64,
    /// Files that were not there as they should be.
    pub files: u64,
    pub seconds: f64,
}

/// Copies weights. `progress` hears of bytes so far, counting files that rsync had to touch.
pub async fn copy_weights(
    from: &dyn Host,
    to: &dyn Host,
    job: &WeightsJob,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<WeightsReport, HostError> {
    copy(from, to, job, &job.path, progress).await
}

/// The same with a folder of its own on the taking node, for tests on one machine.
async fn copy(
    from: &dyn Host,
    to: &dyn Host,
    job: &WeightsJob,
    target: &str,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<WeightsReport, HostError> {
    let begun = Instant::now();
    let serving = format!("giving the weights to {}", to.node());
    let taking = format!("taking the weights from {}", from.node());
    let secret = secret().map_err(|error| failed(from, &serving, format!("no random numbers: {error}")))?;

    let (give, take) = (job.from_address.to_string(), job.to_address.to_string());
    let script = Script::new("serve-weights", python!("serve-weights.py"), [&job.path, &give, &take]);
    let script = script.input(format!("{secret}\n")).timeout(NO_LIMIT);
    let (source, port) = listen(from, script, &serving).await?;

    let mut paths = Vec::new();
    for file in &job.files {
        paths.extend_from_slice(file.path.as_bytes());
        paths.push(0);
    }
    let mut input = format!("{secret}\n{}\n", paths.len()).into_bytes();
    input.extend_from_slice(&paths);
    let script = Script::new("pull-weights", python!("pull-weights.py"), [target, &give, &port, &take]);
    let mut pull = to.start(script.input(input).timeout(NO_LIMIT)).await?;

    let (mut bytes, mut files) = (0, 0);
    while let Some(line) = pull.lines.recv().await {
        if let Some(so_far) = progressed(&line) {
            progress(so_far);
        } else if let Some(count) = statistic(&line, "Number of regular files transferred:") {
            files = count;
        } else if let Some(count) = statistic(&line, "Total bytes received:") {
            bytes = count;
        }
    }
    let pulled = ended(pull).await;
    let (served, status) = finish(source, &pulled).await;
    let pulled = match (pulled?, status) {
        (None, Some(0)) => return Ok(WeightsReport { bytes, files, seconds: begun.elapsed().as_secs_f64() }),
        (pulled, _) => pulled,
    };
    // Where the connection to the giving node went, that is the reason; else what either end said.
    let served = String::from_utf8_lossy(&served?.stderr).trim().replace('\n', "; ");
    let said: Vec<_> =
        [pulled.unwrap_or_default(), served].into_iter().filter(|words| !words.is_empty()).collect();
    let words = if said.is_empty() { "rsync there ended without a word".to_owned() } else { said.join("; ") };
    let full = words.contains("No space left on device");
    Err(failed(to, &taking, if full { format!("the disk is full: {words}") } else { words }))
}

/// Ends the giving end: how it ended, and the status of its rsync, where that has ended too.
async fn finish(
    source: Running,
    pulled: &Result<Option<String>, HostError>,
) -> (Result<Output, HostError>, Option<i32>) {
    let Running { mut lines, end } = source;
    let patience = if matches!(pulled, Ok(None)) { Duration::from_secs(30) } else { Duration::from_secs(1) };
    let status = async {
        while let Some(line) = lines.recv().await {
            if let Some(status) = line.strip_prefix("ended ") {
                return status.trim().parse().ok();
            }
        }
        None
    };
    let status = tokio::time::timeout(patience, status).await.unwrap_or_default();
    drop(lines);
    let output = end.await.unwrap_or_else(|error| {
        Ok(Output {
            code: None,
            stdout: Vec::new(),
            stderr: error.to_string().into_bytes(),
            noise: String::new(),
        })
    });
    (output, status)
}

/// `  1234567  45%  12.34MB/s  0:00:10 (xfr#1, to-chk=3/5)`
fn progressed(line: &str) -> Option<u64> {
    let mut fields = line.split_whitespace();
    let bytes = fields.next()?.replace(',', "").parse().ok()?;
    fields.next().filter(|percent| percent.ends_with('%')).map(|_| bytes)
}

/// `Total bytes received: 1,234`
fn statistic(line: &str, name: &str) -> Option<u64> {
    line.trim().strip_prefix(name)?.trim().replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::LocalHost;

    /// A copy between two folders of this machine, which needs rsync and Python for it.
    async fn local_copy(
        files: &[&str],
        prepare: impl FnOnce(&std::path::Path, &std::path::Path),
    ) -> (Result<WeightsReport, HostError>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("a/to"));
        std::fs::create_dir(&from).unwrap();
        prepare(&from, &to);
        let host = LocalHost::new("here".parse().unwrap());
        let file = |path: &&str| ModelFile { path: (*path).to_owned(), size: 0, mtime: 0 };
        let job = WeightsJob {
            path: from.to_str().unwrap().to_owned(),
            from_address: Ipv4Addr::LOCALHOST,
            to_address: Ipv4Addr::LOCALHOST,
            files: files.iter().map(file).collect(),
            bytes: 0,
        };
        let result = copy(&host, &host, &job, to.to_str().unwrap(), &mut |_| {}).await;
        (result, folder)
    }

    #[tokio::test]
    async fn listed_files_come_and_links_as_what_they_lead_to() {
        let copied = local_copy(&["config.json", "sub dir/ü.bin", "link.json"], |from, _| {
            std::fs::create_dir(from.join("sub dir")).unwrap();
            std::fs::write(from.join("config.json"), "{}").unwrap();
            std::fs::write(from.join("sub dir/ü.bin"), vec![7; 3_000_000]).unwrap();
            std::fs::write(from.join("unlisted"), "x").unwrap();
            std::fs::write(from.with_file_name("blob"), "blob").unwrap();
            std::os::unix::fs::symlink("../blob", from.join("link.json")).unwrap();
        });
        let (result, folder) = copied.await;
        let report = result.unwrap();
        assert_eq!(report.files, 3);
        assert!(report.bytes > 3_000_000, "{report:?}");
        let to = folder.path().join("a/to");
        assert_eq!(std::fs::read_to_string(to.join("link.json")).unwrap(), "blob");
        assert!(!to.join("link.json").is_symlink());
        assert_eq!(std::fs::metadata(to.join("sub dir/ü.bin")).unwrap().len(), 3_000_000);
        let mut names: Vec<_> =
            std::fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["config.json", "link.json", "sub dir"]);
    }

    #[tokio::test]
    async fn what_is_missing_is_said() {
        let (result, _folder) = local_copy(&["gone.bin"], |_, _| {}).await;
        let error = result.unwrap_err().to_string();
        assert!(error.starts_with("taking the weights from here failed on here: "), "{error}");
        assert!(error.contains("gone.bin") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn what_rsync_prints() {
        assert_eq!(
            progressed("      1,234,567  45%   12.34MB/s    0:00:10 (xfr#1, to-chk=3/5)"),
            Some(1_234_567)
        );
        assert_eq!(progressed("32768  1%"), Some(32768));
        assert_eq!(progressed("receiving incremental file list"), None);
        assert_eq!(progressed(""), None);
        assert_eq!(statistic("Total bytes received: 1,234", "Total bytes received:"), Some(1234));
        assert_eq!(statistic("Total bytes sent: 1", "Total bytes received:"), None);
    }
}
