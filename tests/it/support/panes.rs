//! Private tmux servers.
