//! The page cache: the model's files leave it ahead of a start, where CUDA would count it as used.
//!
//! Best effort: what cannot be done is said, and fails nothing. Files stay as they are, and are read from the disk again.

use std::time::Duration;

use crate::error::in_full;
use crate::host::{Host, Script};
use crate::plan::render::size;
use crate::transfer::ends::words;

/// A minute for the files and one for the whole cache, each given up by the script itself.
const LIMIT: Duration = Duration::from_secs(150);

const SCRIPT: &str = concat!(
    "dropper() {\ncat <<'PYTHON'\n",
    include_str!("drop-cache.py"),
    "PYTHON\n}\n",
    include_str!("drop-cache.sh")
);

/// Drops it; what was done and what it gave, for people, or why not.
pub(super) async fn drop_cache(node: &dyn Host, path: &str, whole: bool) -> Result<String, String> {
    let script = Script::new("drop-cache", SCRIPT, [path, if whole { "whole" } else { "" }]);
    let output = node.run(script.timeout(LIMIT)).await.map_err(|error| in_full(&error))?;
    if let Some(said) = words(&output) {
        return Err(said);
    }
    told(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| "the script did not say what it did".to_owned())
}

/// `files 41`, perhaps `whole`, and `free 9123456 102345678` in KiB.
fn told(text: &str) -> Option<String> {
    let after = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    let files = after("files").map_or(0, |count| count.trim().parse::<u64>().unwrap_or(0));
    let (before, now) = after("free")?.split_once(' ')?;
    let [before, now] = [before, now].map(|kib| kib.trim().parse::<u64>().ok());
    let (before, now) = (before? * 1024, now? * 1024);
    let way = match (now.checked_sub(before), before.checked_sub(now)) {
        (Some(more), _) => format!("rose by {}", size(more)),
        (None, less) => format!("fell by {}", size(less.unwrap_or(0))),
    };
    let whole = if text.lines().any(|line| line == "whole") { ", then the whole cache" } else { "" };
    Some(format!("MemFree {way} to {} ({files} files{whole})", size(now)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::host::LocalHost;

    #[test]
    fn what_is_told() {
        let said = "files 41\nwhole\nfree 10000000 110000000\n";
        let wanted = "MemFree rose by 102 GB to 113 GB (41 files, then the whole cache)";
        assert_eq!(told(said).as_deref(), Some(wanted));
        assert_eq!(
            told("files 0\nfree 20 10\n").as_deref(),
            Some("MemFree fell by 10 kB to 10 kB (0 files)")
        );
        assert_eq!(told("files 3\n"), None);
        assert_eq!(told("free x y\n"), None);
    }

    /// Pages of a file that are in the cache, as the kernel counts them.
    fn cached(file: &std::path::Path) -> u64 {
        const COUNT: &str = r"
import ctypes, mmap, os, sys
size = os.path.getsize(sys.argv[1])
with open(sys.argv[1], 'r+b') as file:
    mapped = mmap.mmap(file.fileno(), size)
address = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
pages = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
call = ctypes.CDLL(None, use_errno=True).mincore
if call(ctypes.c_void_p(address), ctypes.c_size_t(size), pages):
    sys.exit(os.strerror(ctypes.get_errno()))
print(sum(page & 1 for page in pages))
";
        let output = Command::new("python3").args(["-c", COUNT]).arg(file).output().expect("python3");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a count")
    }

    #[tokio::test]
    async fn the_files_leave_the_cache() {
        // On a disk: what lies in memory alone has nowhere else to be.
        let target = concat!(env!("CARGO_MANIFEST_DIR"), "/target");
        std::fs::create_dir_all(target).expect("a folder");
        let folder = tempfile::tempdir_in(target).expect("a folder");
        let (one, below) = (folder.path().join("model.safetensors"), folder.path().join("below"));
        std::fs::create_dir(&below).expect("a folder");
        let other = below.join("x.safetensors");
        for file in [&one, &other] {
            // Just written, so that its pages are dirty.
            std::fs::write(file, vec![7; 16 << 20]).expect("a file");
        }
        Command::new("mkfifo").arg(folder.path().join("pipe")).status().expect("a pipe");
        let before = cached(&one);
        assert!(before >= 4000, "{before}");
        let host = LocalHost::new("here".parse().expect("a name"));
        let path = folder.path().to_str().expect("a path");
        let said = drop_cache(&host, path, false).await.expect("it is dropped");
        assert!(said.starts_with("MemFree ") && said.ends_with("(2 files)"), "{said}");
        for file in [&one, &other] {
            let after = cached(file);
            assert!(after < 100, "{after} pages are still in the cache");
        }
        assert_eq!(std::fs::read(&one).expect("the file").len(), 16 << 20);
        // A folder that is gone is no failure.
        let said = drop_cache(&host, "/nowhere", false).await.expect("nothing is dropped");
        assert!(said.ends_with("(0 files)"), "{said}");
    }
}
