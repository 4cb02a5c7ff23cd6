//! The files that a program for `sed` itself names: `r`, `R`, `w`, `W`, and the flag `w` of `s`.
//!
//! Reads as much of the language as it takes to tell a command from a text. Never says what a program does
//! with the files it is given.

use super::shell::Word;

/// What was not understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unclear;

/// A file that a program names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named<'a> {
    /// It is read.
    Read(&'a str),
    /// It is written.
    Written(&'a str),
}

/// The programs among the arguments of `sed`. What stands in a file (`-f`) is not among them.
pub(super) fn programs(args: &[Word]) -> Vec<&str> {
    let (mut found, mut first, mut from_file) = (Vec::new(), None, false);
    let mut words = args.iter().map(|word| word.text.as_str());
    while let Some(text) = words.next() {
        if let Some(program) = text.strip_prefix("--expression=") {
            found.push(program);
        } else if text == "--expression" {
            found.extend(words.next());
        } else if text.starts_with("--") {
            from_file |= text.starts_with("--file");
            if ["--file", "--line-length"].contains(&text) {
                words.next();
            }
        } else if let Some(cluster) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            let Some(at) = cluster.find(['e', 'f', 'l', 'i']) else { continue };
            let (letter, rest) = (&cluster[at..=at], &cluster[at + 1..]);
            let value = if rest.is_empty() && letter != "i" { words.next() } else { Some(rest) };
            match letter {
                "e" => found.extend(value),
                "f" => from_file = true,
                _ => {}
            }
        } else {
            // An empty one is the value of `-i`, where that takes one.
            first = first.or(Some(text).filter(|text| !text.is_empty()));
        }
    }
    if found.is_empty() && !from_file {
        found.extend(first);
    }
    found
}

/// The files that one program names.
///
/// # Errors
/// When it is not understood.
pub(super) fn files(program: &str) -> Result<Vec<Named<'_>>, Unclear> {
    let mut reader = Reader { rest: program, found: Vec::new() };
    while reader.command()? {}
    Ok(reader.found)
}

struct Reader<'a> {
    rest: &'a str,
    found: Vec<Named<'a>>,
}

impl<'a> Reader<'a> {
    /// One command with its addresses; `false` at the end.
    fn command(&mut self) -> Result<bool, Unclear> {
        self.skip(|c| c.is_whitespace() || ";{}".contains(c));
        self.addresses()?;
        let Some(command) = self.next() else { return Ok(false) };
        match command {
            'r' | 'R' => {
                let file = self.file();
                self.found.push(Named::Read(file));
            }
            'w' | 'W' => {
                let file = self.file();
                self.found.push(Named::Written(file));
            }
            's' => {
                self.parts(2)?;
                self.skip(|c| "gpiImMe0123456789".contains(c));
                if self.rest.starts_with('w') {
                    self.next();
                    let file = self.file();
                    self.found.push(Named::Written(file));
                }
            }
            'y' => self.parts(2)?,
            'a' | 'i' | 'c' => while self.line().ends_with('\\') {},
            '#' | 'e' | 'v' => {
                self.line();
            }
            'b' | 't' | 'T' | ':' => self.skip(|c| c != '\n' && c != ';' && c != '}'),
            'q' | 'Q' | 'l' | 'L' => self.skip(|c| c == ' ' || c.is_ascii_digit()),
            'd' | 'D' | 'p' | 'P' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'x' | '=' | 'z' | 'F' | '{' => {}
            _ => return Err(Unclear),
        }
        Ok(true)
    }

    fn addresses(&mut self) -> Result<(), Unclear> {
        loop {
            self.skip(|c| c.is_ascii_digit() || "$,~+! \t".contains(c));
            match self.rest.chars().next() {
                Some('/') => self.parts(1)?,
                Some('\\') => {
                    self.next();
                    self.parts(1)?;
                }
                _ => return Ok(()),
            }
            self.skip(|c| c == 'I' || c == 'M');
        }
    }

    /// So many texts, each up to the delimiter that stands here.
    fn parts(&mut self, count: usize) -> Result<(), Unclear> {
        let delimiter = self.next().filter(|c| *c != '\n' && *c != '\\').ok_or(Unclear)?;
        for _ in 0..count {
            loop {
                match self.next().ok_or(Unclear)? {
                    '\\' => drop(self.next()),
                    c if c == delimiter => break,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn skip(&mut self, fits: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(fits);
    }

    fn line(&mut self) -> &'a str {
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        line
    }

    fn file(&mut self) -> &'a str {
        self.line().trim_start()
    }
}

#[cfg(test)]
mod tests {
    use super::super::shell;
    use super::*;
    use Named::{Read, Written};

    #[test]
    fn files_of_programs_are_told_from_texts() {
        let table: &[(&str, &[Named<'_>])] = &[
            ("r .env", &[Read(".env")]),
            ("$r.env", &[Read(".env")]),
            ("/a/,/b/ R  x y", &[Read("x y")]),
            ("\\,r .env,p", &[]),
            ("1,3!{p;w out\n}", &[Written("out")]),
            ("s/r .env/w x/g", &[]),
            ("s/a/b/gw out", &[Written("out")]),
            ("s,a\\,r .env,b,;r x", &[Read("x")]),
            ("y/rw/wr/", &[]),
            ("a\\\nr .env\\\nw x\nr y", &[Read("y")]),
            ("i r .env", &[]),
            ("# r .env\np", &[]),
            (":r;N;br;r x", &[Read("x")]),
            ("1~2d;5q;$!N;P;D", &[]),
            ("/^r /d", &[]),
        ];
        for (program, expected) in table {
            assert_eq!(files(program).as_deref(), Ok(*expected), "{program}");
        }
        for unclear in ["s/a", "k", "src/lib.rs", "/a"] {
            assert_eq!(files(unclear), Err(Unclear), "{unclear}");
        }
    }

    #[test]
    fn programs_are_told_from_files() {
        for (command, expected) in [
            ("sed p f", &["p"][..]),
            ("sed -n 'r .env' plain", &["r .env"]),
            ("sed -e p -e 'r x' f", &["p", "r x"]),
            ("sed -ne p f", &["p"]),
            ("sed -nep f", &["p"]),
            ("sed -i.bak -E s/a/b/ f", &["s/a/b/"]),
            ("sed --expression=p --expression d f", &["p", "d"]),
            ("sed -f prog f", &[]),
            ("sed -l 5 p f", &["p"]),
            ("sed -i '' 'r x' f", &["r x"]),
        ] {
            let words = shell::parse(command).commands[0].words.clone();
            assert_eq!(programs(&words[1..]), expected, "{command}");
        }
    }
}
