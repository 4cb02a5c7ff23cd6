//! Paths as the kernel will see them: links resolved before a rule looks at them.

use super::disk::Disk;
use crate::wire::access::{Access, Target};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// How many links a path may go through (the kernel's own bound).
const MAX_LINKS: usize = 40;

/// The access with every path absolute and free of links, `.` and `..`. Parts that do not exist yet
/// are kept as written.
pub async fn resolve_access(disk: &Disk, access: Access) -> Access {
    let paths = match &access.target {
        Target::Read(paths) | Target::Edit(paths) => paths.clone(),
        _ => return access,
    };
    let anchor = paths.first().cloned().unwrap_or_default();
    let resolved = disk.run(&anchor, move || Ok(paths.iter().map(|p| resolve(p)).collect::<Vec<_>>())).await;
    let target = match (access.target, resolved) {
        (Target::Read(_), Ok(paths)) => Target::Read(paths),
        (Target::Edit(_), Ok(paths)) => Target::Edit(paths),
        // The store thread is gone: the process ends; the paths as written are judged strictly enough.
        (target, _) => target,
    };
    Access { target, ..access }
}

/// Resolves links in every part of an absolute path, also when the end of it does not exist.
pub fn resolve(path: &Path) -> PathBuf {
    let mut todo: Vec<OsString> = parts(path);
    todo.reverse();
    let mut done = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = todo.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) if links < MAX_LINKS => {
                links += 1;
                if target.is_absolute() {
                    done = PathBuf::from("/");
                }
                todo.extend(parts(&target).into_iter().rev());
            }
            _ => done = next,
        }
    }
    done
}

fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_everywhere_and_missing_ends_are_kept() {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path().canonicalize().expect("real");
        std::fs::create_dir(root.join("real")).expect("dir");
        symlink("real", root.join("link")).expect("link");
        symlink(root.join("gone/deep"), root.join("dangling")).expect("link");
        symlink("loop", root.join("loop")).expect("link");
        assert_eq!(resolve(&root.join("link/../link/./new/file")), root.join("real/new/file"));
        assert_eq!(resolve(&root.join("dangling/x")), root.join("gone/deep/x"));
        assert_eq!(resolve(&root.join("link/../../etc")), root.parent().expect("parent").join("etc"));
        assert_eq!(resolve(&root.join("loop")), root.join("loop"));
    }
}
