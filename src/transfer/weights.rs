//! Weights from one node to another: several rsyncs, served on the giving node and pulled by the taking one, and the
//! hash of every file on both.
//!
//! Only the listed files come, links as what they lead to. A file has its name only when its hash is the giving node's;
//! a transfer that was cut continues where it was. Who serves is bound to the fabric (to loopback, where `ssh` carries
//! the bytes) and knows one secret and one client's addresses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::ends::{NO_LIMIT, ended, failed, listen, secret};
use super::python;
use crate::cluster::facts::ModelFile;
use crate::host::{Host, HostError, Output, Running, Script};
use crate::plan::Rail;
use crate::profile::{Transfer, WeightsWay};
use crate::release::store::succeeded;

/// Which weights, and by which addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightsJob {
    /// The model's folder, the same on both nodes.
    pub path: String,
    /// The two nodes' addresses on each rail; at least one.
    pub rails: Vec<Rail>,
    pub transfer: Transfer,
    /// What is to be there afterwards; nothing else is touched.
    pub files: Vec<ModelFile>,
    /// Whether what was seen before counts for nothing.
    pub verify: bool,
}

/// What a transfer of weights moved.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightsReport {
    /// Bytes that came over the fabric.
    pub bytes: u64,
    /// Files that were not there as they should be.
    pub files: u64,
    /// SHA-256 of all files of the job, by path, the same on both nodes.
    pub hashes: BTreeMap<String, String>,
    pub seconds: f64,
}

/// Copies weights. `progress` hears of bytes so far, of those that come and those that are only hashed.
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

    let through_ssh = job.transfer.weights == WeightsWay::Ssh;
    let mut arguments = vec![job.path.clone()];
    for rail in &job.rails {
        // What comes through ssh comes from the giving node itself.
        let (listen, admit) =
            if through_ssh { (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST) } else { (rail.from, rail.to) };
        arguments.extend([listen.to_string(), admit.to_string()]);
    }
    let script = Script::new("serve-weights", python!("seen.py", "serve-weights.py"), arguments);
    let verify = if job.verify { "verify" } else { "" };
    let script = script.input(format!("{secret}\n{verify}\n")).timeout(NO_LIMIT);
    let (source, ports) = listen(from, script, &serving).await?;

    let way = if through_ssh { "ssh" } else { "direct" };
    let mut arguments = vec![target.to_owned(), way.to_owned(), job.transfer.streams.to_string()];
    for (rail, port) in job.rails.iter().zip(ports.split_whitespace()) {
        arguments.extend([rail.from.to_string(), port.to_owned(), rail.to.to_string()]);
    }
    let wish = serde_json::json!({ "files": job.files, "verify": job.verify }).to_string();
    let input = format!("{secret}\n{}\n{wish}", wish.len());
    let script = Script::new("pull-weights", python!("seen.py", "pull-weights.py"), arguments);
    let mut pull = to.start(script.input(input).timeout(NO_LIMIT)).await?;

    let (mut moved, mut hashes) = (None, BTreeMap::new());
    while let Some(line) = pull.lines.recv().await {
        match line.split_once(' ') {
            Some(("bytes", count)) => progress(count.parse().unwrap_or_default()),
            Some(("hash", rest)) => {
                hashes
                    .extend(rest.split_once(' ').map(|(sha256, path)| (path.to_owned(), sha256.to_owned())));
            }
            Some(("moved", rest)) => moved = two(rest),
            _ => {}
        }
    }
    let pulled = ended(pull).await;
    let patience = if matches!(pulled, Ok(None)) { Duration::ZERO } else { Duration::from_secs(1) };
    let served = finish(source, patience).await;
    let whole = job.files.iter().all(|file| hashes.contains_key(&file.path));
    let pulled = match (pulled?, moved) {
        (None, Some((bytes, files))) if whole => {
            return Ok(WeightsReport { bytes, files, hashes, seconds: begun.elapsed().as_secs_f64() });
        }
        (pulled, _) => pulled,
    };
    // Where the connection to the giving node went, that is the reason; else what either end said.
    let mut words = pulled.unwrap_or_default();
    let served = String::from_utf8_lossy(&served?.stderr).trim().replace('\n', "; ");
    if !served.is_empty() {
        let _ = write!(words, "{}{} says: {served}", if words.is_empty() { "" } else { "; " }, from.node());
    }
    if words.is_empty() {
        "it ended without a word".clone_into(&mut words);
    }
    let full = words.contains("No space left on device");
    Err(failed(to, &taking, if full { format!("the disk is full: {words}") } else { words }))
}

/// Ends the giving end, after a moment for what it may still have to say.
async fn finish(source: Running, patience: Duration) -> Result<Output, HostError> {
    let Running { mut lines, end } = source;
    let _ = tokio::time::timeout(patience, async { while lines.recv().await.is_some() {} }).await;
    drop(lines);
    end.await.unwrap_or_else(|error| {
        Ok(Output {
            code: None,
            stdout: Vec::new(),
            stderr: error.to_string().into_bytes(),
            noise: String::new(),
        })
    })
}

/// `1234 5`
fn two(text: &str) -> Option<(u64, u64)> {
    let (one, other) = text.split_once(' ')?;
    Some((one.parse().ok()?, other.parse().ok()?))
}

/// Removes files below a folder; false where none was named.
pub async fn remove_files(host: &dyn Host, folder: &str, files: &[String]) -> Result<bool, HostError> {
    let input = files.iter().flat_map(|file| [file.as_str(), "\0"]).collect::<String>();
    let script = Script::new("remove-files", include_str!("remove-files.sh"), [folder]).input(input);
    succeeded(host, "remove files that are not the model's", &host.run(script).await?)?;
    Ok(!files.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::LocalHost;
    use std::path::{Path, PathBuf};

    /// Two folders of this machine, between which weights are copied; needs rsync and Python.
    struct Pair {
        folder: tempfile::TempDir,
        from: PathBuf,
        to: PathBuf,
    }

    impl Pair {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (from, to) = (folder.path().join("from"), folder.path().join("a/to"));
            std::fs::create_dir(&from).unwrap();
            Self { folder, from, to }
        }

        async fn copy(&self, files: &[&str], verify: bool) -> Result<WeightsReport, HostError> {
            let host = LocalHost::new("here".parse().unwrap());
            let file = |path: &&str| {
                let size = std::fs::metadata(self.from.join(path)).map_or(0, |data| data.len());
                ModelFile { path: (*path).to_owned(), size, mtime: 1_700_000_000, sha256: None }
            };
            let job = WeightsJob {
                path: self.from.to_str().unwrap().to_owned(),
                rails: vec![Rail { from: Ipv4Addr::LOCALHOST, to: Ipv4Addr::LOCALHOST }],
                transfer: Transfer::default(),
                files: files.iter().map(file).collect(),
                verify,
            };
            copy(&host, &host, &job, self.to.to_str().unwrap(), &mut |_| {}).await
        }

        /// Another content of the same length, and the time of before: what a disk does that forgets.
        fn flip(path: &Path) {
            let time = std::fs::metadata(path).unwrap().modified().unwrap();
            let mut content = std::fs::read(path).unwrap();
            content[1000] ^= 1;
            std::fs::write(path, content).unwrap();
            std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
        }
    }

    #[tokio::test]
    async fn listed_files_come_and_links_as_what_they_lead_to() {
        let pair = Pair::new();
        let (from, to) = (&pair.from, &pair.to);
        std::fs::create_dir(from.join("sub dir")).unwrap();
        std::fs::write(from.join("config.json"), "{}").unwrap();
        std::fs::write(from.join("sub dir/ü.bin"), vec![7; 3_000_000]).unwrap();
        std::fs::write(from.join("unlisted"), "x").unwrap();
        std::fs::write(pair.folder.path().join("blob"), "blob").unwrap();
        std::os::unix::fs::symlink("../blob", from.join("link.json")).unwrap();
        let report = pair.copy(&["config.json", "sub dir/ü.bin", "link.json"], false).await.unwrap();
        assert_eq!((report.files, report.bytes), (3, 3_000_006));
        assert_eq!(
            report.hashes["config.json"],
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
        assert_eq!(std::fs::read_to_string(to.join("link.json")).unwrap(), "blob");
        assert!(!to.join("link.json").is_symlink());
        assert_eq!(std::fs::read(to.join("sub dir/ü.bin")).unwrap(), vec![7; 3_000_000]);
        let mut names: Vec<_> =
            std::fs::read_dir(to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".sparkctl", "config.json", "link.json", "sub dir"]);
        // Both files are what their types say.
        let read = |name: &str| std::fs::read_to_string(to.join(".sparkctl").join(name)).unwrap();
        let seen: crate::model::manifest::Seen = serde_json::from_str(&read("seen.json")).unwrap();
        assert_eq!(seen.files.len(), 3);
        let manifest: crate::model::manifest::Manifest =
            serde_json::from_str(&read("manifest.json")).unwrap();
        assert_eq!(manifest.files["config.json"].sha256, report.hashes["config.json"]);
        assert!(!to.join(".sparkctl/incoming").exists());
    }

    #[tokio::test]
    async fn only_what_is_wrong_comes_again() {
        let pair = Pair::new();
        let names = ["a.bin", "b.bin", "c.bin", "d.bin"];
        for (at, name) in (0..).zip(names) {
            std::fs::write(pair.from.join(name), vec![at; 100_000]).unwrap();
        }
        let again = async |verify| pair.copy(&names, verify).await.map(|report| (report.files, report.bytes));
        assert_eq!(again(false).await.unwrap(), (4, 400_000));
        assert_eq!(again(false).await.unwrap(), (0, 0));
        // Another time, the same content.
        std::fs::File::options()
            .write(true)
            .open(pair.to.join("a.bin"))
            .unwrap()
            .set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
        assert_eq!(again(false).await.unwrap(), (0, 0));
        // A byte that changed without a trace is found by reading all.
        Pair::flip(&pair.to.join("b.bin"));
        assert_eq!(again(false).await.unwrap(), (0, 0));
        assert_eq!(again(true).await.unwrap(), (1, 100_000));
        // Cut short; a link that leads nowhere; another content of the same length.
        std::fs::write(pair.to.join("c.bin"), "short").unwrap();
        std::fs::remove_file(pair.to.join("d.bin")).unwrap();
        std::os::unix::fs::symlink("nowhere", pair.to.join("d.bin")).unwrap();
        std::fs::write(pair.to.join("a.bin"), vec![9; 100_000]).unwrap();
        assert_eq!(again(false).await.unwrap(), (3, 300_000));
        for name in names {
            let read = |folder: &Path| std::fs::read(folder.join(name)).unwrap();
            assert_eq!(read(&pair.from), read(&pair.to), "{name}");
        }
        // What the source lost is not spread.
        Pair::flip(&pair.from.join("b.bin"));
        let error = again(true).await.unwrap_err().to_string();
        assert!(error.contains("b.bin") && error.contains("it is damaged"), "{error}");
    }

    #[tokio::test]
    async fn what_a_cut_left_is_gone_on_with_and_not_trusted() {
        let pair = Pair::new();
        let content: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(pair.from.join("a.bin"), &content).unwrap();
        let left = pair.to.join(".sparkctl/incoming/a.bin");
        for (there, moved) in [(&content[..6_000_000], 2_000_000), (&vec![1; 6_000_000][..], 10_000_000)] {
            let _ = std::fs::remove_file(pair.to.join("a.bin"));
            std::fs::create_dir_all(left.parent().unwrap()).unwrap();
            std::fs::write(&left, there).unwrap();
            let report = pair.copy(&["a.bin"], false).await.unwrap();
            assert_eq!(report.bytes, moved);
            assert_eq!(std::fs::read(pair.to.join("a.bin")).unwrap(), content);
        }
    }

    #[tokio::test]
    async fn what_is_missing_is_said() {
        let pair = Pair::new();
        let error = pair.copy(&["gone.bin"], false).await.unwrap_err().to_string();
        assert!(error.starts_with("taking the weights from here failed on here: "), "{error}");
        assert!(error.contains("gone.bin") && error.contains("No such file"), "{error}");
    }
}
