//! Signals as tokens: INT, TERM and HUP ask for an end in order.

use std::future::Future;
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What was signalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signalled {
    /// Ctrl-C, or INT from elsewhere.
    Interrupt,
    /// TERM or HUP.
    End,
}

/// Listens from now on; the default action of these signals is off as long as the process lives.
pub fn listen() -> io::Result<mpsc::UnboundedReceiver<Signalled>> {
    let (out, signals) = mpsc::unbounded_channel();
    let kinds = [
        (SignalKind::interrupt(), Signalled::Interrupt),
        (SignalKind::terminate(), Signalled::End),
        (SignalKind::hangup(), Signalled::End),
    ];
    for (kind, meaning) in kinds {
        let mut stream = signal(kind)?;
        let out = out.clone();
        #[expect(clippy::disallowed_methods, reason = "belongs to the process, not to an agent")]
        drop(tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if out.send(meaning).is_err() {
                    return;
                }
            }
        }));
    }
    Ok(signals)
}

/// Does some work to its end; a signal cancels it.
pub async fn cancelling<T>(
    work: impl Future<Output = T>,
    cancel: &CancellationToken,
    signals: &mut mpsc::UnboundedReceiver<Signalled>,
) -> T {
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(_) = signals.recv() => cancel.cancel(),
        }
    }
}
