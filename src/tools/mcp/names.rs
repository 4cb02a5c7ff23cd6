//! Names of servers and tools, as models and permission rules use them: `mcp__server__tool`.
//!
//! Letters, digits, `_` and `-`, at most 64 of them (the shortest limit of the wires). What has to be
//! changed for that and would then be the same as another name gets a part of its hash, the same always.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Longest name of a tool.
pub const LONGEST: usize = 64;
/// Longest part of it that names the server, so that rules for a whole server keep working.
const LONGEST_SERVER: usize = 32;
/// Hexadecimal digits of a hash.
const HASH: usize = 8;

/// The labels of servers: the part of their tools' names. Of two that would be the same, the later one
/// gets its hash.
pub fn labels<'a>(servers: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for name in servers {
        let mut label = plain(name);
        // Two underscores end the server's part of a name.
        while label.contains("__") {
            label = label.replace("__", "_");
        }
        let label = label.trim_matches('_');
        let label = if label.is_empty() { "server" } else { label };
        labels.push(unique(label, name, LONGEST_SERVER, &labels));
    }
    labels
}

/// The names of a server's tools, in their order.
pub fn tools<'a>(label: &str, tools: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for tool in tools {
        let name = format!("mcp__{label}__{}", plain(tool));
        names.push(unique(&name, tool, LONGEST, &names));
    }
    names
}

/// `wanted`, unless it is too long or taken; then as much of it as there is room for beside the hash of
/// `original`.
fn unique(wanted: &str, original: &str, longest: usize, taken: &[String]) -> String {
    if wanted.len() <= longest && !taken.iter().any(|name| name == wanted) {
        return wanted.to_owned();
    }
    let mut short: String = wanted.chars().take(longest - HASH - 1).collect();
    short.push('_');
    for byte in Sha256::digest(original.as_bytes()).iter().take(HASH / 2) {
        // Writing into a String cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    short
}

fn plain(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_stay_and_others_are_told_apart() {
        let long = "x".repeat(40);
        let made = labels(["db", "my.server", "my server", "a__b", "größe", "  ", &long]);
        assert_eq!(made[..6], ["db", "my_server", "my_server_b129874b", "a_b", "gr_e", "server"]);
        assert_eq!((made[6].len(), &made[6][..23]), (32, &long[..23]));
        let made = tools("db", ["query", "a.b", "a/b", &long, &"y".repeat(80)]);
        assert_eq!(made[..2], ["mcp__db__query", "mcp__db__a_b"]);
        assert!(made[2].starts_with("mcp__db__a_b_") && made[2].len() == 21, "{made:?}");
        assert_eq!(made[3], format!("mcp__db__{long}"));
        assert_eq!(made[4].len(), 64);
        assert!(
            made.iter().all(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)))
        );
        assert_eq!(made, tools("db", ["query", "a.b", "a/b", &long, &"y".repeat(80)]), "always the same");
    }
}
