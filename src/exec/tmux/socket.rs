//! The socket of a private server: tmux leaves the file behind when it ends.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// How long a server without panes may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Where tmux keeps the socket named `name` of this user.
pub fn path(name: &str, env: &BTreeMap<String, String>) -> PathBuf {
    let dir = env.get("TMUX_TMPDIR").filter(|dir| !dir.is_empty()).map_or("/tmp", String::as_str);
    PathBuf::from(dir).join(format!("tmux-{}", crate::os::process::user())).join(name)
}

/// Removes the file once nobody answers behind it; leaves it when a server still does at the deadline.
pub async fn remove_when_dead(path: PathBuf) {
    let until = Instant::now() + ENDS_WITHIN;
    loop {
        match UnixStream::connect(&path) {
            Ok(_) if Instant::now() < until => tokio::time::sleep(LOOK).await,
            Ok(_) => return tracing::warn!(path = %path.display(), "the tmux server has not ended"),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                if let Err(error) = std::fs::remove_file(&path) {
                    tracing::warn!(path = %path.display(), %error, "a socket could not be removed");
                }
                return;
            }
            Err(_) => return,
        }
    }
}
