//! Reading and writing what a node remembers of its links' speed.

use super::figures::Figures;
use crate::host::{Host, HostError, Output, Script};

/// What the node remembers. The error is words.
pub(super) async fn read(host: &dyn Host) -> Result<Figures, String> {
    let script = Script::new("read-figures", include_str!("read-figures.sh"), [""; 0]);
    let json = answer(host.run(script).await)?;
    Figures::read(&json).map_err(|why| format!("~/.local/state/sparkctl/fabric.json cannot be read: {why}"))
}

/// Makes the node remember. The error is words.
pub(super) async fn write(host: &dyn Host, figures: &Figures) -> Result<(), String> {
    let script = Script::new("write-figures", include_str!("write-figures.sh"), [""; 0]);
    let written = answer(host.run(script.input(figures.write())).await);
    written.map(drop).map_err(|why| format!("the measured speed could not be kept there: {why}"))
}

fn answer(output: Result<Output, HostError>) -> Result<Vec<u8>, String> {
    let output = output.map_err(|error| error.to_string())?;
    if output.code == Some(0) {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
