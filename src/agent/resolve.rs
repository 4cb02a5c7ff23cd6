//! Paths as the kernel will see them: links resolved before a rule looks at them.

use super::disk::Disk;
use crate::os::file::resolve;
use crate::wire::access::{Access, Target};

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
