//! Reading a profile's files and fetching its secrets on the operator's machine, before anything else happens.
//!
//! Everything that is wrong is found at once, each at its field. A command runs without a shell, may take
//! [`COMMAND_LIMIT`], and what it says on standard error is told where it fails.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::redact::SHORTEST;
use super::{Content, Delivery, LARGEST_FILE, LocalFile, Secret, context};
use crate::engine::key_variable;
use crate::error::system_words;
use crate::plan::render::size;
use crate::profile::{EnvValue, Problem, Profile, SecretSource};

/// How long a command may take that prints a secret: a person may have to touch a key.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(60);
/// The longest secret; an environment may not be much larger.
const LONGEST_SECRET: u64 = 64 * 1024;

/// What is wrong, and what to do where there is more to say.
type Wrong = (String, Option<String>);

fn wrong(message: impl Into<String>) -> Wrong {
    (message.into(), None)
}

/// All that the profile's files and secrets hold; or all that is wrong with them.
pub async fn read(profile: &Profile) -> Result<Delivery, Vec<Problem>> {
    read_with(profile, true).await
}

/// The same without fetching a secret: their names, with nothing as their values. For what is planned and never done.
pub async fn read_without_values(profile: &Profile) -> Result<Delivery, Vec<Problem>> {
    read_with(profile, false).await
}

async fn read_with(profile: &Profile, values: bool) -> Result<Delivery, Vec<Problem>> {
    let mut delivery = Delivery::default();
    let mut problems = Vec::new();
    let mut note = |path: String, (message, hint): Wrong| {
        problems.push(Problem { path, message, hint, is_in_key: false });
    };
    for (index, placed) in profile.files.iter().enumerate() {
        match bytes(&placed.source, LARGEST_FILE).await {
            Ok(bytes) => {
                let (target, content) = (placed.target.clone(), Content::from(bytes));
                delivery.files.push(LocalFile { target, content });
            }
            Err(wrong) => note(format!("files[{index}].source"), wrong),
        }
    }
    if let Some(build) = &profile.image.build {
        match context::read(&build.folder) {
            Ok(context) => delivery.context = Some(context),
            Err(why) => note("image.build.folder".to_owned(), wrong(why)),
        }
    }
    for (name, value) in &profile.engine.env {
        let EnvValue::Secret(source) = value else { continue };
        let value =
            if values { secret(source, COMMAND_LIMIT).await } else { Ok(Secret::from(String::new())) };
        match value {
            Ok(value) => drop(delivery.secrets.0.insert(name.clone(), value)),
            Err(wrong) => note(format!("engine.env.{name}"), wrong),
        }
    }
    if let Some(source) = &profile.serve.api_key {
        let value = if values { key(source).await } else { Ok(Secret::from(String::new())) };
        match value {
            Ok(value) => {
                drop(delivery.secrets.0.insert(key_variable(profile.engine.kind).to_owned(), value));
            }
            Err(wrong) => note("serve.api_key".to_owned(), wrong),
        }
    }
    if problems.is_empty() { Ok(delivery) } else { Err(problems) }
}

/// The endpoint's key. It travels in a header, and is to be taken out of logs.
async fn key(source: &SecretSource) -> Result<Secret, Wrong> {
    let key = secret(source, COMMAND_LIMIT).await?;
    if !key.reveal().bytes().all(|b| b.is_ascii_graphic()) {
        return Err(wrong(format!(
            "what {source} gives cannot be a key: only visible ASCII characters may be in it"
        )));
    }
    if key.reveal().len() < SHORTEST {
        let hint = "make one: openssl rand -hex 32".to_owned();
        return Err((
            format!("the key that {source} gives is shorter than {SHORTEST} characters"),
            Some(hint),
        ));
    }
    Ok(key)
}

/// The content of a regular file of the operator's machine.
async fn bytes(path: &str, most: u64) -> Result<Vec<u8>, Wrong> {
    let place = place(path);
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => (
            format!("there is no file `{}`", place.display()),
            Some("a relative path begins at the folder of the file that it is written in".to_owned()),
        ),
        _ => wrong(format!("`{}` cannot be read: {}", place.display(), system_words(&error))),
    };
    let kind = tokio::fs::metadata(&place).await.map_err(failed)?;
    if kind.is_dir() {
        return Err(wrong(format!("`{}` is a folder, and only a file can be meant", place.display())));
    }
    if !kind.is_file() {
        return Err(wrong(format!("`{}` is not an ordinary file", place.display())));
    }
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(&place).await.map_err(failed)?;
    file.take(most + 1).read_to_end(&mut bytes).await.map_err(failed)?;
    if bytes.len() as u64 > most {
        let message = format!("`{}` is larger than {}", place.display(), size(most));
        return Err((
            message,
            Some("what is larger belongs to the model's folder or into the image".to_owned()),
        ));
    }
    Ok(bytes)
}

/// The path with `~/` as the user's home.
pub(super) fn place(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(path),
    }
}

async fn secret(source: &SecretSource, limit: Duration) -> Result<Secret, Wrong> {
    let bytes = match source {
        SecretSource::Env(name) => match std::env::var(name) {
            Ok(value) => value.into_bytes(),
            Err(std::env::VarError::NotPresent) => {
                let hint = format!("export {name}=... in the shell that runs sparkctl");
                return Err((format!("{source} is not set"), Some(hint)));
            }
            Err(std::env::VarError::NotUnicode(_)) => return Err(wrong(format!("{source} is not text"))),
        },
        SecretSource::File(path) => bytes(path, LONGEST_SECRET).await?,
        SecretSource::Command(words) => printed(source, words, limit).await?,
    };
    if bytes.len() as u64 > LONGEST_SECRET {
        return Err(wrong(format!("{source} gives more than {}", size(LONGEST_SECRET))));
    }
    // The error would show the bytes.
    let text = String::from_utf8(bytes).map_err(|_| wrong(format!("what {source} gives is not text")))?;
    let text = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    if text.trim().is_empty() {
        return Err(wrong(format!("{source} gives nothing")));
    }
    if text.contains('\0') {
        return Err(wrong(format!("what {source} gives has a NUL character in it")));
    }
    Ok(Secret::from(text.to_owned()))
}

/// What a command prints on standard output.
async fn printed(source: &SecretSource, words: &[String], limit: Duration) -> Result<Vec<u8>, Wrong> {
    let (program, arguments) = words.split_first().ok_or_else(|| wrong("there is no command"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Not in a process group of its own: it may have to ask something on the terminal, which only the foreground may.
    command.kill_on_drop(true);
    let failed = |error: std::io::Error| wrong(format!("{source} cannot be run: {}", system_words(&error)));
    let mut child = command.spawn().map_err(failed)?;
    let ended = tokio::time::timeout(limit, output(&mut child)).await;
    let Ok(ended) = ended else {
        return Err(wrong(format!("{source} did not end within {} s", limit.as_secs_f32())));
    };
    let Output { status, stdout, stderr } = ended.map_err(failed)?;
    // What was cut off has ended by that, and not well; the caller tells that it is too long.
    if status.success() || stdout.len() as u64 > LONGEST_SECRET {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&stderr);
    let lines: Vec<_> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let told = lines[lines.len().saturating_sub(5)..].join("; ");
    let told = if told.is_empty() { "it said nothing".to_owned() } else { told };
    let how = status.code().map_or("was killed".to_owned(), |code| format!("ended with {code}"));
    Err(wrong(format!("{source} {how}: {told}")))
}

/// What a child says until it ends: of standard output no more than shows that it is too long, of standard error the
/// beginning.
async fn output(child: &mut Child) -> std::io::Result<Output> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, mut err) = (out.expect("it was piped"), err.expect("it was piped"));
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    // Ends with its end of the pipe closed: who goes on writing is ended by that.
    let said = async { out.take(LONGEST_SECRET + 1).read_to_end(&mut stdout).await };
    let told = async {
        (&mut err).take(LONGEST_SECRET).read_to_end(&mut stderr).await?;
        tokio::io::copy(&mut err, &mut tokio::io::sink()).await
    };
    tokio::try_join!(said, told)?;
    Ok(Output { status: child.wait().await?, stdout, stderr })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    async fn check(source: SecretSource, wanted: Result<&str, &str>) {
        let found = secret(&source, Duration::from_millis(500)).await;
        match (found, wanted) {
            (Ok(value), Ok(wanted)) => assert_eq!(value.reveal(), wanted, "{source:?}"),
            (Err((message, _)), Err(wanted)) => assert!(message.contains(wanted), "{source:?}: {message}"),
            (Ok(_), Err(wanted)) => panic!("{source:?} gives something, and not `{wanted}`"),
            (Err((message, _)), Ok(_)) => panic!("{source:?}: {message}"),
        }
    }

    #[tokio::test]
    async fn secrets_of_every_source() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            SecretSource::File(path.display().to_string())
        };
        let sh = |script: &str| SecretSource::Command(["sh", "-c", script].map(str::to_owned).to_vec());
        let env = |name: &str| SecretSource::Env(name.to_owned());
        check(file("token", b"hf_1234\n"), Ok("hf_1234")).await;
        check(file("token", b"hf_1234\r\n"), Ok("hf_1234")).await;
        check(file("token", b" two\nlines\n\n"), Ok(" two\nlines\n")).await;
        check(file("token", b"\n"), Err("gives nothing")).await;
        check(file("token", b"hf\xff\n"), Err("is not text")).await;
        check(file("token", b"a\0b"), Err("has a NUL character")).await;
        check(file("token", &vec![b'x'; 70_000]), Err("is larger than 66 kB")).await;
        check(SecretSource::File("/no/such/file".to_owned()), Err("there is no file `/no/such/file`")).await;
        check(SecretSource::File("/".to_owned()), Err("is a folder")).await;
        check(SecretSource::File("/dev/null".to_owned()), Err("is not an ordinary file")).await;
        check(env("CARGO_PKG_NAME"), Ok("sparkctl")).await;
        check(env("NO_SUCH_VARIABLE_9"), Err("the variable `NO_SUCH_VARIABLE_9` is not set")).await;
        check(sh("echo hf_5678"), Ok("hf_5678")).await;
        check(sh("printf '%s' \"$0\""), Ok("sh")).await;
        check(sh("echo hf_5678; echo locked >&2; exit 3"), Err("ended with 3: locked")).await;
        check(sh(":"), Err("gives nothing")).await;
        check(sh("sleep 30"), Err("did not end within 0.5 s")).await;
        check(sh("exec yes"), Err("gives more than 66 kB")).await;
        check(sh("yes | head -c 300000 >&2; echo hf_5678"), Ok("hf_5678")).await;
        check(SecretSource::Command(vec!["no-such-program".to_owned()]), Err("cannot be run: no such file"))
            .await;
    }

    #[tokio::test]
    async fn files_that_cannot_be_placed_are_told_at_their_field() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(at("good"), "one").unwrap();
        std::fs::write(at("large"), vec![0; 1 + usize::try_from(LARGEST_FILE).unwrap()]).unwrap();
        std::fs::write(at("full"), vec![0; usize::try_from(LARGEST_FILE).unwrap()]).unwrap();
        let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/qwen35-122b.yaml"));
        let mut profile = crate::config::load(file, &crate::config::Given::NOTHING).unwrap().profile;
        let place = |sources: &[String]| -> Vec<_> {
            let placed = |(number, source): (usize, &String)| crate::profile::PlacedFile {
                source: source.clone(),
                target: format!("/sparkctl/{number}"),
            };
            sources.iter().enumerate().map(placed).collect()
        };
        profile.files = place(&[at("good"), at("absent"), at("large"), at("")]);
        profile.engine.env.insert("A".to_owned(), EnvValue::Secret(SecretSource::File(at("gone"))));
        let problems = read(&profile).await.unwrap_err();
        let told: Vec<_> = problems.iter().map(|p| format!("{}: {}", p.path, p.message)).collect();
        let folder = folder.path().display();
        assert_eq!(
            told,
            [
                format!("files[1].source: there is no file `{folder}/absent`"),
                format!("files[2].source: `{folder}/large` is larger than 17 MB"),
                format!("files[3].source: `{folder}/` is a folder, and only a file can be meant"),
                format!("engine.env.A: there is no file `{folder}/gone`"),
            ]
        );
        profile.files = place(&[at("good"), at("full")]);
        profile.engine.env.clear();
        let ran = SecretSource::Command(vec!["touch".to_owned(), at("ran")]);
        profile.engine.env.insert("A".to_owned(), EnvValue::Secret(ran));
        let delivery = read_without_values(&profile).await.unwrap();
        assert_eq!(delivery.secrets.names().into_iter().collect::<Vec<_>>(), ["A"]);
        assert!(!Path::new(&at("ran")).exists(), "no secret was fetched");
        profile.engine.env.clear();
        let delivery = read(&profile).await.unwrap();
        assert_eq!(delivery.files[0].content.bytes(), b"one");
        assert_eq!(
            (delivery.files[1].target.as_str(), delivery.files[1].content.size()),
            ("/sparkctl/1", LARGEST_FILE)
        );
        std::fs::set_permissions(at("good"), std::fs::Permissions::from_mode(0o000)).unwrap();
        // Root may read everything.
        if let Err(problems) = read(&profile).await {
            assert!(problems[0].message.contains("cannot be read: permission denied"), "{problems:?}");
        }
    }
}
