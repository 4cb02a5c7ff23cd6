//! The end of a process that was asked to end and does not get there.
//!
//! A signal asks for an end in order, which takes as long as the ladder of the teammates. This watch runs
//! beside it and needs nothing of what may hang: not the disk, not the loop. Promises that a second signal, or
//! [`in_order`] after the first, ends the process with status 130, its children before it (a second HUP says no more than the first). Guards are left to
//! end what is below them, which they do when their owner is gone.

use super::error::CliError;
use super::setup::Setup;
use crate::os::process::{self, Signal};
use crate::os::{guard, terminal};
use crate::wire::error::ExitKind;
use crate::wire::settings::ShutdownSettings;
use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// What an end in order may take beside the ladder of the teammates: hooks, servers, the last lines.
const BESIDE_LADDER: Duration = Duration::from_secs(30);
/// How long an end in order may go on after a second signal.
const AFTER_SECOND: Duration = Duration::from_secs(3);
/// How long children are killed, until none is left.
const KILLING: Duration = Duration::from_secs(2);
/// Between two rounds of that.
const ROUND: Duration = Duration::from_millis(10);

/// Which signals ask for the end of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insisting {
    /// INT, TERM and HUP.
    All,
    /// TERM and HUP: INT means the turn.
    End,
}

/// What a signal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// That the process should end. A terminal that is closed says it more than once, and means no more by that.
    Once,
    /// The same; said again, that it should end now.
    Firmly,
}

/// Watches from now on, as long as the process lives.
///
/// # Errors
/// When the system takes no handler.
pub fn watch(which: Insisting, setup: &Setup) -> io::Result<()> {
    let mut kinds = vec![(SignalKind::terminate(), Asked::Firmly), (SignalKind::hangup(), Asked::Once)];
    if which == Insisting::All {
        kinds.push((SignalKind::interrupt(), Asked::Firmly));
    }
    let (out, mut signals) = mpsc::unbounded_channel();
    for (kind, asked) in kinds {
        let mut stream = signal(kind)?;
        let out = out.clone();
        on_its_own(async move { while stream.recv().await.is_some() && out.send(asked).is_ok() {} });
    }
    let within = in_order(&setup.loaded.settings.shutdown);
    let stays = setup.shared.keep_team;
    let as_json = setup.shared.json;
    let modes = terminal::Modes::remember();
    on_its_own(async move {
        due(&mut signals, within, AFTER_SECOND).await;
        // Whether or not the terminal takes them back, the process ends.
        drop(modes.map(|modes| modes.restore()));
        let message = "the process did not end in order when it was asked to, and was ended all the same";
        let hint = "`festoon doctor` looks at what may have held it; --resume goes on with the session";
        CliError::new(ExitKind::Interrupted, "interrupted", message, hint).show(as_json);
        if !stays {
            kill_children().await;
        }
        std::process::exit(i32::from(ExitKind::Interrupted.code()));
    });
    Ok(())
}

/// How long an end in order may take after the first signal.
pub fn in_order(ladder: &ShutdownSettings) -> Duration {
    let steps = [ladder.polite_ms, ladder.interrupt_ms, ladder.terminate_ms];
    steps.into_iter().map(Duration::from_millis).fold(BESIDE_LADDER, Duration::saturating_add)
}

/// Waits until an end in order has had its time.
async fn due(signals: &mut mpsc::UnboundedReceiver<Asked>, within: Duration, after_second: Duration) {
    if signals.recv().await.is_none() {
        return std::future::pending().await;
    }
    let again = async {
        while let Some(asked) = signals.recv().await {
            if asked == Asked::Firmly {
                return tokio::time::sleep(after_second).await;
            }
        }
        std::future::pending().await
    };
    tokio::select! {
        () = tokio::time::sleep(within) => {}
        () = again => {}
    }
}

/// Kills what is below this process, workers and all, except guards and what is theirs to end.
async fn kill_children() {
    let until = Instant::now() + KILLING;
    while Instant::now() < until {
        let below = process::descendants(std::process::id());
        let mut left = 0;
        for child in below {
            if !guard::is_guard(process::arguments(child.pid).into_iter()) {
                left += 1;
                // One that may not be signalled is not ours to end.
                drop(process::signal(&child, Signal::Kill));
            }
        }
        if left == 0 {
            return;
        }
        tokio::time::sleep(ROUND).await;
    }
}

#[expect(clippy::disallowed_methods, reason = "belongs to the process, not to an agent")]
fn on_its_own(work: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(work));
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(20);

    async fn is_due(sent: &[Asked], within: Duration, after_second: Duration) -> bool {
        let (out, mut signals) = mpsc::unbounded_channel();
        sent.iter().for_each(|asked| out.send(*asked).expect("is heard"));
        tokio::time::timeout(Duration::from_millis(500), due(&mut signals, within, after_second))
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn a_second_signal_or_the_time_after_the_first_makes_an_end() {
        use Asked::{Firmly, Once};
        assert!(!is_due(&[], SHORT, SHORT).await);
        assert!(!is_due(&[Firmly], LONG, SHORT).await);
        assert!(!is_due(&[Once, Once], LONG, SHORT).await);
        assert!(is_due(&[Once], SHORT, LONG).await);
        assert!(is_due(&[Once, Once, Firmly], LONG, SHORT).await);
        assert!(is_due(&[Firmly, Firmly], LONG, SHORT).await);
    }

    #[test]
    fn an_end_in_order_has_the_time_of_the_ladder() {
        let ladder = ShutdownSettings { polite_ms: 1000, interrupt_ms: 200, terminate_ms: 30 };
        assert_eq!(in_order(&ladder), Duration::from_millis(31_230));
    }
}
