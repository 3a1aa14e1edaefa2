//! What a crash leaves on a disk.

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

use crate::Exit;

/// Has the kernel write no dump of this process when it crashes, for one that has others' keys in its memory.
///
/// # Errors
/// The kernel does not allow it.
pub fn forbid_core_dumps() -> Result<(), Exit> {
    // The limit counts where a dump is a file. The other one counts as well where a program takes it.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none)
        .and_then(|()| set_dumpable_behavior(DumpableBehavior::NotDumpable))
        .map_err(|error| Exit::Failure(format!("cannot forbid core dumps: {error}")))
}
