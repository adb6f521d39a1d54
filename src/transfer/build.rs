//! Building an image on a node, with that node's Docker. The folder travels as an archive over the script's standard
//! input; when that closes, the build ends.

use std::collections::{BTreeMap, VecDeque};

use super::ends::{NO_LIMIT, failed, outcome};
use super::python;
use crate::delivery::Content;
use crate::host::{Host, HostError, Running, Script};

/// Lines of a failed build that are told.
const LAST: usize = 12;

/// Builds `context` as `name`. `line` hears what the build says. The last lines of one that fails are its error.
pub async fn build_image(
    host: &dyn Host,
    name: &str,
    args: &BTreeMap<String, String>,
    context: &Content,
    line: &mut (dyn FnMut(&str) + Send),
) -> Result<(), HostError> {
    let what = format!("building image `{name}`");
    let args = args.iter().map(|(name, value)| format!("{name}={value}"));
    let arguments = [context.size().to_string(), name.to_owned()].into_iter().chain(args);
    let script = Script::new("build-image", python!("build-image.py"), arguments);
    let running = host.start(script.input(context.bytes()).timeout(NO_LIMIT)).await?;
    let Running { mut lines, end } = running;
    let mut last = VecDeque::new();
    while let Some(said) = lines.recv().await {
        line(&said);
        if last.len() == LAST {
            last.pop_front();
        }
        last.push_back(said);
    }
    match outcome(end).await? {
        None => Ok(()),
        Some(words) => {
            let said: Vec<_> = last.into_iter().map(|line| format!("\n    {line}")).collect();
            Err(failed(host, &what, format!("{words}{}", said.concat())))
        }
    }
}
