//! What a container's command line says: the model that it serves. And what of it nobody else should read.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What stands for a secret.
const BLOT: &str = "***";

/// The model that an engine is told to serve: `vllm serve X`, `--model X`, `--model-path X`, `trtllm-serve X`,
/// also in the text of a `bash -c`. A shell's variable is no model.
pub fn model(argv: &[String]) -> Option<String> {
    let words: Vec<String> = argv.iter().flat_map(|argument| words(argument)).collect();
    let flagged = words.iter().enumerate().find_map(|(at, word)| {
        let value = |flag: &str| match word.strip_prefix(flag)? {
            "" => words.get(at + 1).map(String::as_str),
            rest => rest.strip_prefix('='),
        };
        value("--model-path").or_else(|| value("--model"))
    });
    let named = || {
        words.windows(3).find_map(|three| {
            let vllm = three[0].ends_with("vllm") || three[0].contains("vllm.entrypoints.cli");
            (vllm && three[1] == "serve").then_some(three[2].as_str())
        })
    };
    let tensorrt = || {
        let at = words.iter().position(|word| word.ends_with("trtllm-serve"))?;
        words[at + 1..].iter().map(String::as_str).find(|word| *word != "serve")
    };
    let found = named().filter(|word| plausible(word)).or(flagged).or_else(tensorrt);
    found.filter(|word| plausible(word)).map(str::to_owned)
}

fn plausible(word: &str) -> bool {
    !word.is_empty() && !word.starts_with('-') && !word.contains(['$', '`'])
}

/// The words of an argument: one, or those of a shell's text. Quotes and backslashes are taken off, and what ends a
/// command ends a word.
fn words(argument: &str) -> Vec<String> {
    if !argument.contains(char::is_whitespace) {
        return vec![argument.to_owned()];
    }
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut characters = argument.chars();
    while let Some(c) = characters.next() {
        let word = words.last_mut().expect("there is always one");
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None | Some('"'), '\\') => word.extend(characters.next().filter(|next| *next != '\n')),
            (None, c) if c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')') => {
                if !word.is_empty() {
                    words.push(String::new());
                }
            }
            (_, c) => word.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What the names of variables and flags have in them whose values are secrets.
const SECRET_WORDS: &str = "TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH";

/// Whether a variable or flag of this name looks like one that holds a secret. How many tokens there may be is none, nor
/// is what cuts a text into them.
pub fn is_secret(name: &str) -> bool {
    static WORDS: LazyLock<Regex> = LazyLock::new(|| Regex::new(SECRET_WORDS).expect("it is a pattern"));
    static COUNTS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new("(MAX|NUM|PER|TOTAL|BATCHED).*TOKENS?|TOKENS?_PER|TOKENIZ").expect("it is a pattern")
    });
    let name = name.to_uppercase().replace('-', "_");
    WORDS.is_match(&COUNTS.replace_all(&name, ""))
}

/// The value of a variable as others may read it.
pub fn blotted_value(name: &str, value: &str) -> String {
    let secret = is_secret(name) && !value.is_empty();
    if secret { BLOT.to_owned() } else { value.to_owned() }
}

/// A command line as others may read it: the values of keys, tokens and passwords are blotted out.
pub fn blotted(argv: &[String]) -> Vec<String> {
    // `NAME=value` and `--flag=value`, or `--flag value`; what begins with `-` behind a flag is the next one.
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        let quoted = r#""[^"]*"?|'[^']*'?"#;
        let rest = format!(r#"(?:{quoted}|[^\s;&|"'])*"#);
        let flag = format!("--[a-z0-9_-]*(?:{SECRET_WORDS})[a-z0-9_-]*");
        let variable = format!("[a-z0-9_]*(?:{SECRET_WORDS})[a-z0-9_]*");
        let assigned = format!(r#"(?<assigned>(?:{flag}|{variable})=)(?:{quoted}|[^\s;&|"']){rest}"#);
        let behind = format!(r#"(?<behind>{flag}\s+)(?:{quoted}|[^-\s;&|"']){rest}"#);
        Regex::new(&format!("(?i){assigned}|{behind}")).expect("it is a pattern")
    });
    static HEADER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?i)(\bauthorization:\s*(?:(?:bearer|basic|token|digest)\s+)?|\bbearer\s+)[^\s"';&|]+"#)
            .expect("it is a pattern")
    });
    let mut secret = false;
    let blot = |argument: &String| {
        if secret && !argument.starts_with('-') {
            return BLOT.to_owned();
        }
        secret =
            argument.strip_prefix("--").is_some_and(|flag| !flag.contains(['=', ' ']) && is_secret(flag));
        let named = |found: &Captures| {
            let front = found.name("assigned").or(found.name("behind")).map_or("", |front| front.as_str());
            let name =
                front.trim_start_matches('-').trim_end_matches(|c: char| c == '=' || c.is_whitespace());
            if is_secret(name) { format!("{front}{BLOT}") } else { found[0].to_owned() }
        };
        let text = NAMED.replace_all(argument, named);
        HEADER.replace_all(&text, format!("${{1}}{BLOT}")).into_owned()
    };
    argv.iter().map(blot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(argv: &[&str]) -> Vec<String> {
        argv.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_model_of_a_command_line() {
        let check = |argv: &[&str], wanted: Option<&str>| {
            assert_eq!(model(&list(argv)).as_deref(), wanted, "{argv:?}");
        };
        check(&["vllm", "serve", "Qwen/Qwen3-8B", "--port", "8000"], Some("Qwen/Qwen3-8B"));
        check(&["/opt/venv/bin/vllm", "serve", "/model"], Some("/model"));
        check(&["vllm", "serve", "--model", "a/b"], Some("a/b"));
        check(&["vllm", "serve"], None);
        check(&["vllm", "serve", "--port", "1"], None);
        check(&["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "a/b"], Some("a/b"));
        check(&["python3", "-m", "vllm.entrypoints.cli.main", "serve", "/tiny"], Some("/tiny"));
        check(
            &["python3", "-m", "sglang.launch_server", "--model-path=/models/x", "--tp", "2"],
            Some("/models/x"),
        );
        check(&["sglang", "serve", "--model-path", "a/b"], Some("a/b"));
        check(&["trtllm-serve", "nvidia/x-FP4", "--tp_size", "2"], Some("nvidia/x-FP4"));
        check(&["trtllm-serve", "serve", "a/b"], Some("a/b"));
        check(&["bash", "-c", "pip install x && vllm serve 'a/b c' --tensor-parallel-size 2"], Some("a/b c"));
        check(&["bash", "-lc", "exec vllm serve \\\n  a/b \\\n  --port 8000"], Some("a/b"));
        check(&["bash", "-c", "(vllm serve a/b|tee /log);true"], Some("a/b"));
        check(&["bash", "-c", "vllm serve $MODEL"], None);
        check(&["bash", "-c", "vllm serve \"${MODEL}\" --port 1"], None);
        check(&["bash", "-c", "echo 'it does not end"], None);
        check(&["nginx", "-g", "daemon off;"], None);
        check(&["--model-loader", "x"], None);
        check(&["--model"], None);
        check(&[], None);
    }

    #[test]
    fn secrets_are_blotted_out() {
        let check = |argv: &[&str], wanted: &[&str]| assert_eq!(blotted(&list(argv)), wanted);
        check(&["--api-key", "k1", "k2", "--port", "8000"], &["--api-key", "***", "***", "--port", "8000"]);
        check(&["--api-key=k1", "--admin-api-key=x"], &["--api-key=***", "--admin-api-key=***"]);
        check(&["--hf-token", "hf_abc"], &["--hf-token", "***"]);
        check(&["--max-num-batched-tokens", "8192"], &["--max-num-batched-tokens", "8192"]);
        check(
            &["bash", "-c", "HF_TOKEN=hf_abc vllm serve a/b --api-key k1 --port 1; OPENAI_API_KEY=x y"],
            &["bash", "-c", "HF_TOKEN=*** vllm serve a/b --api-key *** --port 1; OPENAI_API_KEY=*** y"],
        );
        let text = |text: &str, wanted: &str| check(&["bash", "-c", text], &["bash", "-c", wanted]);
        text("AWS_SECRET_ACCESS_KEY=a/b+c= x", "AWS_SECRET_ACCESS_KEY=*** x");
        text("HF_KEY=abc;DB_PASS='a b' x", "HF_KEY=***;DB_PASS=*** x");
        text("env -e A=1 B_CREDENTIALS=\"a b\" x", "env -e A=1 B_CREDENTIALS=*** x");
        text(
            "curl -H 'Authorization: Bearer abc' http://h/ready",
            "curl -H 'Authorization: Bearer ***' http://h/ready",
        );
        text("curl -H \"authorization: abc\" x", "curl -H \"authorization: ***\" x");
        text("x --auth --api-key k --port 1", "x --auth --api-key *** --port 1");
        let plain =
            "TOKENIZERS_PARALLELISM=false MAX_TOKENS=4096 vllm serve a/b --max-num-batched-tokens 8192";
        text(plain, plain);
    }

    #[test]
    fn names_of_secrets() {
        for name in [
            "HF_TOKEN",
            "hf_token",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSWORD",
            "API_TOKENS",
            "VLLM_API_KEY",
            "api-key",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "NCCL_SOCKET_IFNAME",
            "GLOO_SOCKET_IFNAME",
            "VLLM_HOST_IP",
            "PATH",
            "max-total-tokens",
            "tokenizer",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
