//! The terminal: its size, its modes (remembered, changed for a while, put back), and standard output.

use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};
use std::io::{self, Write};
use std::os::fd::AsFd;

/// Columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Cells in a row.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

/// The size of the terminal that standard output is; `None` when it is none, or does not say.
pub fn size() -> Option<Size> {
    let out = io::stdout();
    if !isatty(&out) {
        return None;
    }
    let size = tcgetwinsize(&out).ok()?;
    (size.ws_col > 0 && size.ws_row > 0)
        .then(|| Size { columns: size.ws_col.into(), rows: size.ws_row.into() })
}

/// The modes of the terminal that standard input is, as they were.
pub struct Modes(Termios);

impl Modes {
    /// Remembers them; `None` when standard input is no terminal, or is another job's for now: who
    /// changes its modes from the background is stopped.
    pub fn remember() -> Option<Self> {
        if tcgetpgrp(io::stdin()).ok()? != getpgrp() {
            return None;
        }
        tcgetattr(io::stdin()).ok().map(Self)
    }

    /// Puts them back.
    pub fn restore(&self) -> io::Result<()> {
        Ok(tcsetattr(io::stdin(), OptionalActions::Drain, &self.0)?)
    }

    /// What is typed is not shown, until [`Modes::restore`]; signals still come.
    pub fn hide_input(&self) -> io::Result<()> {
        let mut hidden = self.0.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        Ok(tcsetattr(io::stdin(), OptionalActions::Drain, &hidden)?)
    }

    /// The same, and every key is read at once, without Enter.
    pub fn single_keys(&self) -> io::Result<()> {
        let mut keys = self.0.clone();
        keys.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
        Ok(tcsetattr(io::stdin(), OptionalActions::Drain, &keys)?)
    }
}

/// Writes all of `text` to standard output. The library's own stream hides that it is not open for
/// writing; here that is an error like any other.
pub fn write_out(text: &str) -> io::Result<()> {
    let mut stream = io::stdout().lock();
    stream.flush()?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(stream.as_fd(), rest))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => rest = &rest[count..],
        }
    }
    Ok(())
}
