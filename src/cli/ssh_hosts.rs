//! The hosts that an ssh configuration names: what `init` offers where none is given.
//!
//! Only names are read, by the rules of `ssh_config(5)` for `Host` and `Include`. Patterns are left out, and so is what
//! is logged into as `git`. What a name means is `ssh`'s business.

use std::path::{Path, PathBuf};

/// Files that include each other are read no deeper, as `ssh` does.
const DEEPEST: usize = 16;

/// The names of hosts in the configuration, each once, in its order.
pub fn hosts(config: Option<&Path>) -> Vec<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let folder = home.map(|home| home.join(".ssh"));
    let Some(file) =
        config.map(Path::to_owned).or_else(|| folder.as_ref().map(|folder| folder.join("config")))
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    read(&file, folder.as_deref(), 0, &mut found);
    found
}

fn read(file: &Path, folder: Option<&Path>, depth: usize, found: &mut Vec<String>) {
    let Ok(text) = std::fs::read_to_string(file) else { return };
    // Hosts of the block at hand: who logs in there is said below.
    let mut block: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some((keyword, words)) = line_words(line) else { continue };
        match keyword.as_str() {
            "host" => {
                add(&mut block, found);
                block = words.into_iter().filter(|word| !word.contains(['*', '?', '!'])).collect();
            }
            "match" => add(&mut block, found),
            "user" if words.first().is_some_and(|user| user == "git") => block.clear(),
            "include" if depth < DEEPEST => {
                add(&mut block, found);
                for file in words.iter().flat_map(|word| included(word, folder)) {
                    read(&file, folder, depth + 1, found);
                }
            }
            _ => {}
        }
    }
    add(&mut block, found);
}

fn add(block: &mut Vec<String>, found: &mut Vec<String>) {
    for host in block.drain(..) {
        if !found.contains(&host) {
            found.push(host);
        }
    }
}

/// The keyword in small letters, and the words behind it without their quotes.
fn line_words(line: &str) -> Option<(String, Vec<String>)> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let (keyword, rest) = line.split_once(|c: char| c.is_whitespace() || c == '=')?;
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '=');
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in rest.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                words.extend(Some(std::mem::take(&mut word)).filter(|w| !w.is_empty()));
            }
            c => word.push(c),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    Some((keyword.to_lowercase(), words))
}

/// The files of an `Include`: relative ones lie in `~/.ssh`, and there may be wildcards.
fn included(word: &str, folder: Option<&Path>) -> Vec<PathBuf> {
    let path = match word.strip_prefix("~/") {
        Some(below) => folder.and_then(Path::parent).map(|home| home.join(below)),
        None if Path::new(word).is_absolute() => Some(PathBuf::from(word)),
        None => folder.map(|folder| folder.join(word)),
    };
    let Some(path) = path.as_deref().and_then(Path::to_str) else { return Vec::new() };
    glob::glob(path).map(|paths| paths.flatten().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_a_configuration() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".ssh");
        std::fs::create_dir_all(folder.join("config.d")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write(
            "config",
            "# Host commented\nInclude config.d/*.conf ~/.ssh/more\nHost github.com\n  HostName github.com\n  User git\n\
             host=\"spark1\" spark2 *.lan !bad\n\tUser aurora\nMatch host x\n  User y\nHost spark1 spark3\nHost *\n",
        );
        write("config.d/a.conf", "Host inner\nInclude nowhere\n");
        write("config.d/b.txt", "Host not-included\n");
        // Includes itself: read until it is too deep.
        write("more", "HOST again\nInclude more\n");
        let mut found = Vec::new();
        read(&folder.join("config"), Some(&folder), 0, &mut found);
        assert_eq!(found, ["inner", "again", "spark1", "spark2", "spark3"]);
    }
}
