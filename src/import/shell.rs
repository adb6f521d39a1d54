//! A shell script as commands of words, as far as recipes go.
//!
//! Quotes, escapes, continued lines, comments, here-documents and variables whose value is known are understood.
//! What only a shell can do (substitutions, pipes, redirections, control flow) is told and kept as text. Never fails:
//! a quote that is not closed ends with the text.

use std::collections::BTreeMap;
use std::ops::Range;

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// The line in the recipe's file.
    pub(super) line: usize,
    /// What in it only a shell knows: a variable, a substitution.
    pub(super) shell: Option<String>,
}

/// One simple command, to the next `;`, `&&`, `||` or end of line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Command {
    pub(super) words: Vec<Word>,
    /// As it stands in the script.
    pub(super) raw: String,
    /// What stands behind the words or makes more of them than a command: redirections, `| tee log`, `&`.
    pub(super) rest: Vec<String>,
    /// The operator that ends it: `&&`, `||`, `;`, `;;`; none at the end of a line.
    pub(super) operator: &'static str,
    /// Where it stands in the script.
    pub(super) place: Range<usize>,
}

impl Command {
    pub(super) fn first(&self) -> &str {
        self.words.first().map_or("", |word| &word.text)
    }

    pub(super) fn line(&self) -> usize {
        self.words.first().map_or(0, |word| word.line)
    }

    /// Whether the one behind it runs only by how this one ends.
    pub(super) fn is_joined(&self) -> bool {
        ["&&", "||"].contains(&self.operator)
    }

    /// Whether its words alone do what it does.
    pub(super) fn is_plain(&self) -> bool {
        self.rest.is_empty() && self.words.iter().all(|word| word.shell.is_none())
    }
}

/// Words that begin or end what is more than one command.
const CONTROL: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function",
    "select", "{", "}", "[[", "(", "!",
];

/// Whether a command is a part of a loop, a condition or the like.
pub(super) fn is_control(command: &Command) -> bool {
    let first = command.first();
    let ends_group =
        command.words.last().is_some_and(|word| word.shell.is_none() && word.text.ends_with(')'))
            && command.raw.ends_with(')');
    CONTROL.contains(&first) || first.ends_with("()") || first.starts_with('(') || ends_group
}

/// The commands of `script`, which begins in `line` of the file; `variables` are those whose value is known.
pub(super) fn commands(script: &str, line: usize, variables: &BTreeMap<String, String>) -> Vec<Command> {
    let mut reader = Reader {
        script,
        rest: script,
        line,
        variables,
        word: None,
        command: Command::default(),
        begin: 0,
        documents: Vec::new(),
        done: Vec::new(),
    };
    reader.read();
    reader.done
}

struct Reader<'a> {
    script: &'a str,
    rest: &'a str,
    line: usize,
    variables: &'a BTreeMap<String, String>,
    word: Option<Word>,
    command: Command,
    /// Where in the script the command begins.
    begin: usize,
    /// Terminators of here-documents that begin with the next line.
    documents: Vec<String>,
    done: Vec<Command>,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn skip(&mut self, bytes: usize) {
        self.line += self.rest[..bytes].matches('\n').count();
        self.rest = &self.rest[bytes..];
    }

    fn at(&self) -> usize {
        self.script.len() - self.rest.len()
    }

    fn word(&mut self) -> &mut Word {
        let line = self.line;
        self.word.get_or_insert_with(|| Word { text: String::new(), line, shell: None })
    }

    fn end_word(&mut self) {
        self.command.words.extend(self.word.take());
    }

    fn end_command(&mut self, at: usize, operator: &'static str) {
        self.end_word();
        let mut command = std::mem::take(&mut self.command);
        if !command.words.is_empty() || !command.rest.is_empty() {
            self.script[self.begin..at].trim().clone_into(&mut command.raw);
            command.operator = operator;
            command.place = self.begin..at;
            self.done.push(command);
        }
        self.begin = self.at();
    }

    fn read(&mut self) {
        while let Some(c) = self.rest.chars().next() {
            match c {
                '\\' => self.escape(),
                '\'' => {
                    self.next();
                    let end = self.rest.find('\'').unwrap_or(self.rest.len());
                    let text = &self.rest[..end];
                    self.word().text.push_str(text);
                    self.skip((end + 1).min(self.rest.len()));
                }
                '"' => self.double_quotes(),
                '$' | '`' => self.variable(),
                '#' if self.word.is_none() => {
                    let end = self.rest.find('\n').unwrap_or(self.rest.len());
                    self.skip(end);
                }
                '\n' => {
                    let at = self.at();
                    self.next();
                    if self.documents.is_empty() {
                        self.end_command(at, "");
                    } else {
                        self.end_word();
                        self.here_documents();
                        self.end_command(self.at(), "");
                    }
                }
                ';' | '&' | '|' => self.operator(),
                '<' | '>' => self.redirection(),
                c if c.is_whitespace() => {
                    self.next();
                    self.end_word();
                }
                c => {
                    self.word().text.push(c);
                    self.next();
                }
            }
        }
        self.end_command(self.at(), "");
    }

    /// A backslash: with the end of the line behind it, the next line goes on; recipes often have a space between.
    fn escape(&mut self) {
        self.next();
        let blank = self.rest.len() - self.rest.trim_start_matches([' ', '\t', '\r']).len();
        if self.rest[blank..].starts_with('\n') {
            self.skip(blank + 1);
            // A word goes on only where nothing is between.
            if blank > 0 {
                self.end_word();
            }
        } else if let Some(c) = self.next() {
            self.word().text.push(c);
        }
    }

    fn double_quotes(&mut self) {
        self.next();
        self.word();
        while let Some(c) = self.rest.chars().next() {
            match c {
                '"' => {
                    self.next();
                    return;
                }
                '\\' => {
                    self.next();
                    match self.next() {
                        Some('\n') => {}
                        Some(c) if "$`\"\\".contains(c) => self.word().text.push(c),
                        Some(c) => self.word().text.extend(['\\', c]),
                        None => self.word().text.push('\\'),
                    }
                }
                '$' | '`' => self.variable(),
                c => {
                    self.next();
                    self.word().text.push(c);
                }
            }
        }
    }

    /// `$NAME`, `${NAME}`, `${NAME:-default}` with their values where they are known; all else is the shell's.
    fn variable(&mut self) {
        let rest = self.rest;
        let (whole, name, fallback) = if let Some(inner) = rest.strip_prefix("${") {
            let Some(end) = inner.find('}') else { return self.of_the_shell(rest.len()) };
            let (name, fallback) = inner[..end]
                .split_once(":-")
                .map_or((&inner[..end], None), |(name, other)| (name, Some(other)));
            (end + 3, name, fallback)
        } else if rest.starts_with("$(") {
            return self.of_the_shell(balanced(rest));
        } else if let Some(inner) = rest.strip_prefix('`') {
            return self.of_the_shell(inner.find('`').map_or(rest.len(), |end| end + 2));
        } else {
            let name = rest[1..].split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
            (name.len() + 1, name, None)
        };
        if name.is_empty() {
            self.next();
            return self.word().text.push('$');
        }
        match (self.variables.get(name), fallback) {
            (Some(value), _) => {
                self.skip(whole);
                let value = value.clone();
                self.word().text.push_str(&value);
            }
            (None, Some(fallback)) if !fallback.contains(['$', '`']) => {
                self.skip(whole);
                self.word().text.push_str(fallback);
            }
            _ => self.of_the_shell(whole),
        }
    }

    /// The next `bytes` are something that only a shell can work out.
    fn of_the_shell(&mut self, bytes: usize) {
        let text = &self.rest[..bytes];
        let word = self.word();
        word.text.push_str(text);
        word.shell.get_or_insert_with(|| text.to_owned());
        self.skip(bytes);
    }

    fn operator(&mut self) {
        let at = self.at();
        let operator = ["&&", "||", ";;", "|&", ";", "&", "|"]
            .into_iter()
            .find(|operator| self.rest.starts_with(operator))
            .unwrap_or("&");
        self.skip(operator.len());
        match operator {
            "&&" | "||" | ";" | ";;" => self.end_command(at, operator),
            // All that is behind belongs to what the shell makes of it.
            _ => {
                self.end_word();
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                let tail = format!("{operator} {}", self.rest[..end].trim());
                self.command.rest.push(tail.trim().to_owned());
                self.skip(end);
            }
        }
    }

    fn redirection(&mut self) {
        // `2>` and `1>`: the number belongs to it.
        let mut text = match self.word.take() {
            Some(word) if word.text.bytes().all(|b| b.is_ascii_digit()) => word.text,
            word => {
                self.word = word;
                self.end_word();
                String::new()
            }
        };
        let is_document = self.rest.starts_with("<<") && !self.rest.starts_with("<<<");
        while let Some(c) = self.rest.chars().next().filter(|c| "<>&-".contains(*c)) {
            text.push(c);
            self.next();
        }
        let blank = self.rest.len() - self.rest.trim_start_matches([' ', '\t']).len();
        self.skip(blank);
        let end = self.rest.find(|c: char| c.is_whitespace() || ";|&".contains(c)).unwrap_or(self.rest.len());
        let target = &self.rest[..end];
        if is_document {
            self.documents.push(target.trim_matches(['\'', '"', '\\']).to_owned());
        }
        self.command.rest.push(format!("{text}{target}"));
        self.skip(end);
    }

    fn here_documents(&mut self) {
        for terminator in std::mem::take(&mut self.documents) {
            while !self.rest.is_empty() {
                let end = self.rest.find('\n').map_or(self.rest.len(), |end| end + 1);
                let is_last = self.rest[..end].trim() == terminator;
                self.skip(end);
                if is_last {
                    break;
                }
            }
        }
    }
}

/// How far `$(...)` goes.
fn balanced(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return at + 1,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
