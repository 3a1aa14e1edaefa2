//! The file read again when its content changes. By content, not by events of the file system: a Secret or ConfigMap
//! mount swaps its links, an editor replaces the file, a network file system tells nothing.

use std::path::PathBuf;
use std::time::Duration;

use super::{Config, ConfigError};

/// How often the file is read. It is small, and nobody waits for less.
const INTERVAL: Duration = Duration::from_secs(1);

/// What a look at a file that changed gave.
pub type Reloaded = Result<Config, ConfigError>;

/// One file, as it was last read.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    seen: Result<String, ConfigError>,
}

impl Watched {
    /// What the file says now, if that is not what it said the last time, right or wrong.
    fn look(&mut self) -> Option<Reloaded> {
        let now = super::text(&self.path);
        if now == self.seen {
            return None;
        }
        let reloaded = now.clone().and_then(|text| Config::parse(&self.path, &text));
        self.seen = now;
        Some(reloaded)
    }
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
    pub fn new(path: PathBuf, text: String) -> Self {
        let mut due = tokio::time::interval(INTERVAL);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Self { file: Watched { path, seen: Ok(text) }, due }
    }

    /// Waits until the file says something else, right or wrong.
    pub async fn changed(&mut self) -> Reloaded {
        loop {
            self.due.tick().await;
            // A few kilobytes, once a second.
            if let Some(reloaded) = self.file.look() {
                return reloaded;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_content_is_told_once_right_or_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let path = dir.join("writer.yaml");
        let backends =
            |reloaded: Option<Reloaded>| reloaded.map(|r| r.map(|c| c.backends.len()).map_err(|e| e.to_string()));
        let good = |n: usize| {
            let backends = (0..n).map(|n| format!("- {{name: b{n}, identity: b{n}}}\n"));
            format!("backends:\n{}", backends.collect::<String>())
        };
        std::fs::write(&path, good(1)).unwrap();
        let mut file = Watched { path: path.clone(), seen: Ok(good(1)) };
        assert_eq!(backends(file.look()), None, "nothing changed");
        std::fs::write(&path, good(1)).unwrap();
        assert_eq!(backends(file.look()), None, "written again, with the same content");
        std::fs::write(&path, good(2)).unwrap();
        assert_eq!(backends(file.look()), Some(Ok(2)));
        std::fs::write(&path, "backends:\n- {name: b0}\n").unwrap();
        let wrong = format!("{}:2:4: missing field `identity`", path.display());
        assert_eq!(backends(file.look()), Some(Err(wrong)));
        assert_eq!(backends(file.look()), None, "told once");
        std::fs::remove_file(&path).unwrap();
        assert!(backends(file.look()).unwrap().unwrap_err().contains("cannot be read"));
        assert_eq!(backends(file.look()), None, "told once");
        // As a mount of a Secret or ConfigMap does it: the file is a link into a folder that is a link.
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
            assert_eq!(backends(file.look()), Some(Ok(n)));
        }
    }
}
