//! The shell of simulated containers: a few commands that show where one is.

/// Names of the shell itself.
const SHELLS: [&str; 4] = ["sh", "bash", "ash", "busybox"];

/// A container as its commands see it.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) pod: String,
    pub(super) namespace: String,
    pub(super) node: String,
    pub(super) container: String,
    pub(super) image: String,
    /// Environment, as `NAME=value`.
    pub(super) environment: Vec<String>,
    /// Present time, as `date` prints it.
    pub(super) now: String,
}

impl Facts {
    /// Says where one is.
    pub(super) fn shown(&self) -> String {
        let Self { container, image, namespace, pod, node, .. } = self;
        format!("simulated container {container} of image {image} in pod {namespace}/{pod} on node {node}")
    }
}

/// Outcome of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) code: u8,
}

/// Kind of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// Reads lines from its input, and runs each.
    Shell,
    /// Writes its input.
    Cat,
    /// Ends at once.
    Ended(Ran),
}

impl Program {
    /// Starts a command with its arguments.
    pub(super) fn start(words: &[String], facts: &Facts) -> Self {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let name = words.first().map_or("", |name| name.rsplit('/').next().unwrap_or(name));
        match (name, words.get(1..).unwrap_or_default()) {
            (name, ["-c", line, ..]) if SHELLS.contains(&name) => Self::Ended(line_of(line, facts)),
            (name, []) if SHELLS.contains(&name) => Self::Shell,
            ("cat", []) => Self::Cat,
            (name, arguments) => Self::Ended(run(name, arguments, facts)),
        }
    }
}

/// Runs one line; its commands end at the first that fails.
pub(super) fn line_of(line: &str, facts: &Facts) -> Ran {
    let mut all = Ran::default();
    for command in line.split("&&").flat_map(|part| part.split(';')) {
        let words: Vec<&str> = command.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
        let Some((name, arguments)) = words.split_first() else { continue };
        let ran = run(name, arguments, facts);
        all = Ran { stdout: all.stdout + &ran.stdout, stderr: all.stderr + &ran.stderr, code: ran.code };
        if all.code != 0 {
            break;
        }
    }
    all
}

fn run(name: &str, arguments: &[&str], facts: &Facts) -> Ran {
    let said = |text: String| Ran { stdout: text + "\n", ..Ran::default() };
    match name {
        "echo" => said(arguments.join(" ")),
        "hostname" => said(facts.pod.clone()),
        "whoami" => said("root".to_owned()),
        "pwd" => said("/".to_owned()),
        "date" => said(facts.now.clone()),
        "env" | "printenv" => said(facts.environment.join("\n")),
        "true" | ":" => Ran::default(),
        "false" => Ran { code: 1, ..Ran::default() },
        "exit" => Ran { code: arguments.first().and_then(|code| code.parse().ok()).unwrap_or(0), ..Ran::default() },
        "help" => {
            said("simulated commands: cat date echo env exit false help hostname pwd true uname whoami".to_owned())
        }
        "uname" => said(facts.shown()),
        other => Ran {
            stderr: format!("sh: {other}: not found: this container is simulated, `help` lists its commands\n"),
            code: 127,
            ..Ran::default()
        },
    }
}

/// A terminal or a pipe in front of the shell.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// The input is a terminal, which shows what is typed.
    pub(super) tty: bool,
    line: String,
    /// Exit code of the last command.
    pub(super) code: u8,
}

/// Reaction of a session to input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reaction {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) ended: bool,
}

/// Longest line that is kept.
const LINE_MAX: usize = 4_096;

impl Session {
    pub(super) fn new(tty: bool) -> Self {
        Self { tty, ..Self::default() }
    }

    /// Shown before each line.
    pub(super) fn prompt(&self) -> &'static str {
        if self.tty { "$ " } else { "" }
    }

    /// Takes input in.
    pub(super) fn take(&mut self, input: &str, facts: &Facts) -> Reaction {
        let mut reaction = Reaction::default();
        for character in input.chars() {
            match character {
                _ if reaction.ended => break,
                '\r' | '\n' => self.enter(facts, &mut reaction),
                '\u{3}' if self.tty => {
                    self.line.clear();
                    reaction.stdout.push_str("^C\n");
                    reaction.stdout.push_str(self.prompt());
                }
                '\u{4}' if self.tty => reaction.ended = self.line.is_empty(),
                '\u{7f}' | '\u{8}' if self.tty => {
                    let erased = self.line.pop().map(|_| "\u{8} \u{8}");
                    reaction.stdout.push_str(erased.unwrap_or_default());
                }
                other if self.line.len() < LINE_MAX => {
                    self.line.push(other);
                    if self.tty {
                        reaction.stdout.push(other);
                    }
                }
                _ => {}
            }
        }
        if self.tty {
            reaction.stdout = std::mem::take(&mut reaction.stdout).replace('\n', "\r\n");
        }
        reaction
    }

    fn enter(&mut self, facts: &Facts, reaction: &mut Reaction) {
        let line = std::mem::take(&mut self.line);
        if self.tty {
            reaction.stdout.push('\n');
        }
        let ran = line_of(&line, facts);
        if !line.trim().is_empty() {
            self.code = ran.code;
        }
        reaction.stdout.push_str(&ran.stdout);
        // A terminal has one stream.
        if self.tty {
            reaction.stdout.push_str(&ran.stderr)
        } else {
            reaction.stderr.push_str(&ran.stderr)
        }
        reaction.ended = line.trim() == "exit" || line.trim().starts_with("exit ");
        if !reaction.ended {
            reaction.stdout.push_str(self.prompt());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { pod: "web-0".into(), namespace: "shop".into(), node: "node-1".into(), ..Facts::default() }
    }

    fn start(words: &str) -> Program {
        Program::start(&words.split('|').map(str::to_owned).collect::<Vec<_>>(), &facts())
    }

    #[test]
    fn commands() {
        let ran = |stdout: &str, code| Program::Ended(Ran { stdout: stdout.into(), code, ..Ran::default() });
        for (words, want) in [
            ("echo|a|b", ran("a b\n", 0)),
            ("/bin/hostname", ran("web-0\n", 0)),
            ("sh|-c|echo a && hostname; false; echo b", ran("a\nweb-0\n", 1)),
            ("sh|-c|exit 7", ran("", 7)),
            ("/bin/sh", Program::Shell),
            ("cat", Program::Cat),
        ] {
            assert_eq!(start(words), want, "{words}");
        }
        let Program::Ended(ran) = start("nginx|-v") else { panic!("it goes on") };
        assert!(ran.code == 127 && ran.stderr.contains("this container is simulated"), "{ran:?}");
        assert_eq!(Program::start(&[], &facts()), Program::Ended(run("", &[], &facts())), "no command");
    }

    #[test]
    fn sessions() {
        let mut pipe = Session::default();
        let got = pipe.take("echo a\nnginx\nhost", &facts());
        assert_eq!((&*got.stdout, got.stderr.contains("not found"), got.ended), ("a\n", true, false));
        let got = pipe.take("name\nexit 3\necho lost\n", &facts());
        assert_eq!((&*got.stdout, got.ended, pipe.code), ("web-0\n", true, 3));
        let mut terminal = Session::new(true);
        assert_eq!(terminal.take("echp\u{7f}o a\r", &facts()).stdout, "echp\u{8} \u{8}o a\r\na\r\n$ ");
        assert_eq!(terminal.take("ec\u{3}", &facts()).stdout, "ec^C\r\n$ ");
        assert!(terminal.take("\u{4}", &facts()).ended);
    }
}
