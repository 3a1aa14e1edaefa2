//! The file read again when its content changes. By content, not by events of the file system: a Secret or ConfigMap
//! mount swaps its links, an editor replaces the file, a network file system tells nothing.
//!
//! Taken is what two looks in a row find: a file that is half written is often good YAML, in which a backend has lost the
//! lines that restrict it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gimbal_transport::{Follow, Step};
use sha2::{Digest as _, Sha256};

use super::{Config, ConfigError};

/// How often the file is read. It is small, and nobody waits for less; and who writes it in pieces writes the next one
/// within this time.
const INTERVAL: Duration = Duration::from_secs(1);

/// Between the two looks of a start, which should not take a second for it.
const SETTLE: Duration = Duration::from_millis(250);

/// What a file that changed and then stayed gave.
pub type Reloaded = Result<Config, ConfigError>;

/// One file, as far as it was taken.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    follow: Follow,
}

impl Watched {
    fn new(path: PathBuf, text: &str) -> Self {
        Self { path, follow: Follow::new(digest(text)) }
    }

    /// What comes of what a look found: right or wrong, once for each content that stays.
    fn look(&mut self, found: Result<String, ConfigError>) -> Option<Reloaded> {
        let look = found.as_ref().map(|text| digest(text)).map_err(ToString::to_string);
        match self.follow.look(look) {
            Step::Rest | Step::LookAgain => None,
            Step::Tell => found.err().map(Err),
            Step::Take | Step::Mended => {
                let read = found.and_then(|text| Config::parse(&self.path, &text));
                self.follow.took(read.is_ok());
                Some(read)
            }
        }
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// The file that the configuration came from.
#[derive(Debug)]
pub struct Followed {
    file: Watched,
    due: tokio::time::Interval,
}

impl Followed {
    /// Follows `path`, which `text` was read from.
    #[must_use]
    pub fn new(path: PathBuf, text: &str) -> Self {
        let mut due = tokio::time::interval(INTERVAL);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Self { file: Watched::new(path, text), due }
    }

    /// Waits until the file says something else, right or wrong.
    pub async fn changed(&mut self) -> Reloaded {
        loop {
            self.due.tick().await;
            if let Some(reloaded) = read(&self.file.path).await.and_then(|found| self.file.look(found)) {
                return reloaded;
            }
        }
    }
}

/// The text of the file once two looks in a row find the same: at the start, too, somebody may be at it.
///
/// # Errors
/// It cannot be read.
pub async fn settled(path: &Path) -> Result<String, ConfigError> {
    let mut found = super::text(path)?;
    loop {
        tokio::time::sleep(SETTLE).await;
        let again = super::text(path)?;
        if again == found {
            return Ok(found);
        }
        found = again;
    }
}

/// Read where blocking harms nobody: the file may lie on a network. `None` when the process ends.
async fn read(path: &Path) -> Option<Result<String, ConfigError>> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || super::text(&path)).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(n: usize) -> String {
        let backends = (0..n).map(|n| format!("- {{name: b{n}, identity: b{n}}}\n"));
        format!("backends:\n{}", backends.collect::<String>())
    }

    /// How many backends what was taken has, or what is wrong.
    fn looked(file: &mut Watched) -> Option<Result<usize, String>> {
        let found = super::super::text(&file.path);
        file.look(found).map(|r| r.map(|config| config.backends.len()).map_err(|error| error.to_string()))
    }

    #[test]
    fn a_file_that_is_half_written_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("writer.yaml");
        let mut file = Watched::new(path.clone(), &good(2));
        let whole = "backends:\n- name: b0\n  identity: b0\n  mode: quarantine\n- {name: b1, identity: b1}\n";
        // Each of these is a configuration: the first without any backend, the second without what restricts one.
        for lines in [1, 3, 4] {
            let part: String = whole.split_inclusive('\n').take(lines).collect();
            assert!(lines == 1 || Config::parse(&path, &part).is_ok(), "{part}");
            std::fs::write(&path, &part).unwrap();
            assert_eq!(looked(&mut file), None, "more may come: {part}");
        }
        std::fs::write(&path, whole).unwrap();
        assert_eq!([looked(&mut file), looked(&mut file)], [None, Some(Ok(2))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_half_written_at_the_start_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("writer.yaml");
        let whole = "backends:\n- name: b0\n  identity: b0\n  mode: quarantine\n";
        std::fs::write(&path, "backends:\n- name: b0\n  identity: b0\n").unwrap();
        let mut start = Box::pin(settled(&path));
        assert!(futures::poll!(&mut start).is_pending(), "more may come");
        std::fs::write(&path, whole).unwrap();
        assert_eq!(start.await.unwrap(), whole);
        assert!(settled(&dir.path().join("none")).await.unwrap_err().to_string().contains("cannot be read"));
    }

    #[test]
    fn each_content_that_stays_is_told_once_right_or_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let path = dir.join("writer.yaml");
        let settled = |file: &mut Watched| {
            assert_eq!(looked(file), None, "one look is not enough");
            looked(file)
        };
        std::fs::write(&path, good(1)).unwrap();
        let mut file = Watched::new(path.clone(), &good(1));
        assert_eq!(settled(&mut file), None, "nothing changed");
        std::fs::write(&path, good(1)).unwrap();
        assert_eq!(settled(&mut file), None, "written again, with the same content");
        std::fs::write(&path, good(2)).unwrap();
        assert_eq!(settled(&mut file), Some(Ok(2)));
        std::fs::write(&path, "backends:\n- {name: b0}\n").unwrap();
        let wrong = format!("{}:2:4: missing field `identity`", path.display());
        assert_eq!(settled(&mut file), Some(Err(wrong)));
        assert_eq!(settled(&mut file), None, "told once");
        std::fs::remove_file(&path).unwrap();
        assert!(settled(&mut file).unwrap().unwrap_err().contains("cannot be read"));
        assert_eq!(settled(&mut file), None, "told once");
        std::fs::write(&path, good(2)).unwrap();
        assert_eq!(settled(&mut file), Some(Ok(2)), "again what is in force: that is news after it was not");
        // As a mount of a Secret or ConfigMap does it: the file is a link into a folder that is a link.
        std::fs::remove_file(&path).unwrap();
        for n in [3, 4] {
            let version = dir.join(format!("..{n}"));
            std::fs::create_dir_all(&version).unwrap();
            std::fs::write(version.join("writer.yaml"), good(n)).unwrap();
            let swap = dir.join("..tmp");
            std::os::unix::fs::symlink(&version, &swap).unwrap();
            std::fs::rename(&swap, dir.join("..data")).unwrap();
            if n == 3 {
                std::os::unix::fs::symlink("..data/writer.yaml", &path).unwrap();
            }
            assert_eq!(settled(&mut file), Some(Ok(n)));
        }
    }
}
