//! Follows a team's event log: the one feed that shows what happens in all its processes.

use crate::store::error::StoreError;
use crate::store::events;
use crate::team::context::Team;
use crate::team::wake::Topic;
use crate::wire::event::Event;
use tokio_util::sync::CancellationToken;

/// Calls `each` for every line from the start of the log on, until cancelled; then once more for what
/// was written meanwhile.
pub async fn follow(
    team: Team,
    cancel: CancellationToken,
    mut each: impl FnMut(&Event),
) -> Result<(), StoreError> {
    let mut signal = team.hub.signal(Topic::Team);
    let mut offset = 0;
    loop {
        let ending = cancel.is_cancelled();
        let paths = team.paths.clone();
        let file = paths.events();
        let (lines, end) = team.disk.run(&file, move || events::read_from(&paths, offset)).await?;
        offset = end;
        lines.iter().for_each(&mut each);
        if ending {
            return Ok(());
        }
        tokio::select! {
            () = cancel.cancelled() => {}
            () = signal.changed() => {}
        }
    }
}
