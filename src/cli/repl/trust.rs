//! The one question before a session in a directory whose files want more than a stranger may have.

use super::console::Console;
use super::editor::Input;
use super::leave::By;
use crate::cli::signals::Signalled;
use crate::cli::text;
use crate::cli::trust::Withheld;
use crate::cli::view::LineSink;
use crate::store::trust;
use std::path::Path;
use tokio::sync::mpsc;

/// What the person says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// It may run, from now on.
    Yes,
    /// Not this time.
    No,
    /// They leave.
    Leave(By),
}

/// Shows what the project would bring and waits for an answer.
pub async fn ask(
    console: &mut Console,
    signals: &mut mpsc::UnboundedReceiver<Signalled>,
    cwd: &Path,
    withheld: &[Withheld],
) -> Said {
    console.printer.lines(&question(cwd, withheld));
    loop {
        let line = tokio::select! {
            biased;
            Some(_) = signals.recv() => return Said::Leave(By::Signal),
            input = console.input.recv() => match input {
                Some(Input::Line(line)) => line,
                Some(Input::Escape) => return Said::No,
                Some(Input::Interrupt { .. } | Input::End) => return Said::Leave(By::Person),
                Some(Input::NextMode) => continue,
                Some(Input::Broken(_)) | None => return Said::Leave(By::Signal),
            },
        };
        match answer(&line) {
            Some(said) => return said,
            None => console.printer.line("y or n?".to_owned()),
        }
    }
}

fn answer(line: &str) -> Option<Said> {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(Said::Yes),
        "n" | "no" => Some(Said::No),
        _ => None,
    }
}

fn question(cwd: &Path, withheld: &[Withheld]) -> Vec<String> {
    let root = trust::root_of(cwd).unwrap_or_else(|_| cwd.to_owned());
    let mut lines = vec![format!("You have not said yet whether you trust {}.", root.display())];
    lines.push(
        "Its files would bring what runs code, sends keys elsewhere, or lets more happen without a question:"
            .to_owned(),
    );
    for Withheld { place, what, shows } in withheld {
        lines.push(format!("  {place}: {what}"));
        lines.extend(shows.iter().map(|line| format!("      {line}")));
    }
    lines
        .push("Trust it, from now on and as it changes? y yes, n not now: the rest works without".to_owned());
    lines.iter().map(|line| text::clean(line).replace('\n', " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_answer_counts() {
        let said = |line| answer(line);
        assert_eq!(
            (said(" Y "), said("yes"), said("no"), said("n")),
            (Some(Said::Yes), Some(Said::Yes), Some(Said::No), Some(Said::No))
        );
        for line in ["", "yes please", "ok", "y n"] {
            assert_eq!(said(line), None, "{line}");
        }
    }

    #[test]
    fn what_the_files_hold_cannot_write_on_the_screen() {
        let shows = vec!["at Stop runs: a\nb\x1b[2J".to_owned()];
        let withheld = Withheld { place: "f".into(), what: "hooks".into(), shows };
        let lines = question(Path::new("/nowhere"), &[withheld]);
        assert_eq!(lines[0], "You have not said yet whether you trust /nowhere.");
        assert_eq!(lines[2..4], ["  f: hooks", "      at Stop runs: a b\\u{1b}[2J"]);
    }
}
