//! One process creates a file, others wait for it, and none of them sees a part of it.

use std::fs::{File, TryLockError};
use std::path::Path;

use anyhow::Context as _;

use super::build::say;

/// Implements [`super::once`].
pub(super) fn once(path: &Path, make: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let (dir, name) = path.parent().zip(path.file_name()).context("a file in a folder is wanted")?;
    let name = name.to_string_lossy();
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let lock = dir.join(format!(".{name}.lock"));
    let file = File::create(&lock).with_context(|| format!("cannot write {}", lock.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            say(&format!("waiting for another process that makes {name}"));
            file.lock().with_context(|| format!("cannot lock {}", lock.display()))?;
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", lock.display()));
        }
    }
    if path.is_file() {
        return Ok(());
    }
    // In the same folder, since a rename is atomic only within a file system. Remains of a killed run are removed.
    let work = dir.join(format!(".{name}.work"));
    if work.exists() {
        std::fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    }
    std::fs::create_dir(&work).with_context(|| format!("cannot make {}", work.display()))?;
    make(&work)?;
    std::fs::rename(work.join(&*name), path).with_context(|| format!("nothing was made at {}", path.display()))?;
    std::fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_run_leaves_nothing_and_the_next_one_starts_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/tool");
        let failed = once(&path, |work| {
            std::fs::write(work.join("tool"), "half")?;
            anyhow::bail!("power cut")
        });
        assert_eq!(failed.unwrap_err().to_string(), "power cut");
        assert!(!path.exists());
        once(&path, |work| {
            assert!(!work.join("tool").exists());
            Ok(std::fs::write(work.join("tool"), "whole")?)
        })
        .unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
    }

    #[test]
    fn of_many_at_once_only_one_makes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tool");
        let made = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    once(&path, |work| {
                        made.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        Ok(std::fs::write(work.join("tool"), "x")?)
                    })
                    .unwrap();
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }
}
