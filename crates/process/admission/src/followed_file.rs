//! A configuration file that is read again when its content changes.
//!
//! It is polled, because events of the file system do not cover the cases that matter: a mounted Secret or ConfigMap
//! swaps links, an editor replaces the file, and a network file system sends no events.
//!
//! A content is taken once two reads in a row find it. A half-written file is often valid, and may lack the lines that
//! restrict a tenant.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gimbal_transport::{Follow, ReloadStep};
use sha2::{Digest as _, Sha256};

/// Interval of reads. A program that writes the file in pieces must not pause longer than this between them.
const INTERVAL: Duration = Duration::from_secs(1);

/// Interval of reads at the start, which should not be delayed by a whole second.
const START_INTERVAL: Duration = Duration::from_millis(250);

/// The content of a file, and how it is parsed.
pub trait FileFormat: Sized {
    /// Why a file cannot be used. Its text names the file.
    type Error: Display + Send + 'static;

    /// Parses the text of a file. `path` is for the error only.
    ///
    /// # Errors
    /// Returns why the text is not valid.
    fn parse(path: &Path, text: &str) -> Result<Self, Self::Error>;

    /// Returns the error for a file that cannot be read.
    fn unreadable(path: &Path, error: &io::Error) -> Self::Error;
}

/// The state of one file: what was read, and what was taken.
#[derive(Debug)]
struct State {
    path: PathBuf,
    follow: Follow,
}

impl State {
    fn new(path: PathBuf, text: &str) -> Self {
        Self { path, follow: Follow::new(digest(text)) }
    }

    /// Takes in one read. Returns a result once for each content that stays, whether it is valid or not.
    fn look<C: FileFormat>(&mut self, found: Result<String, C::Error>) -> Option<Result<C, C::Error>> {
        let look = found.as_ref().map(|text| digest(text)).map_err(ToString::to_string);
        match self.follow.look(look) {
            ReloadStep::Rest | ReloadStep::LookAgain => None,
            ReloadStep::Tell => found.err().map(Err),
            ReloadStep::Take | ReloadStep::Mended => {
                let read = found.and_then(|text| C::parse(&self.path, &text));
                self.follow.took(read.is_ok());
                Some(read)
            }
        }
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

fn text<C: FileFormat>(path: &Path) -> Result<String, C::Error> {
    std::fs::read_to_string(path).map_err(|error| C::unreadable(path, &error))
}

/// A file that is followed after it was read first.
#[derive(Debug)]
pub struct FollowedFile {
    state: State,
    due: tokio::time::Interval,
}

impl FollowedFile {
    /// Follows the file at `path`, whose content so far is `text`.
    #[must_use]
    pub fn new(path: PathBuf, text: &str) -> Self {
        let mut due = tokio::time::interval(INTERVAL);
        due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Self { state: State::new(path, text), due }
    }

    /// Waits until the file has another content, or has the content in force again after an error.
    ///
    /// # Errors
    /// Returns why the new content cannot be used. The file is still followed.
    pub async fn changed<C: FileFormat>(&mut self) -> Result<C, C::Error> {
        loop {
            self.due.tick().await;
            if let Some(reloaded) = read::<C>(&self.state.path).await.and_then(|found| self.state.look::<C>(found)) {
                return reloaded;
            }
        }
    }
}

/// Returns the text of a file once two reads in a row find the same: it may be written while the process starts.
///
/// # Errors
/// Returns why it cannot be read.
pub async fn read_when_stable<C: FileFormat>(path: &Path) -> Result<String, C::Error> {
    let mut found = text::<C>(path)?;
    loop {
        tokio::time::sleep(START_INTERVAL).await;
        let again = text::<C>(path)?;
        if again == found {
            return Ok(found);
        }
        found = again;
    }
}

/// Reads the file on a blocking thread, because it may lie on a network. Returns `None` if the read was cancelled
/// because the process ends.
async fn read<C: FileFormat>(path: &Path) -> Option<Result<String, C::Error>> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || text::<C>(&path)).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of tenants, one a line. A tenant is restricted by a second word.
    struct Tenants(usize);

    impl FileFormat for Tenants {
        type Error = String;

        fn parse(path: &Path, text: &str) -> Result<Self, String> {
            match text.lines().position(|line| !line.starts_with("tenant-")) {
                Some(line) => Err(format!("{}:{}: not a tenant", path.display(), line + 1)),
                None => Ok(Self(text.lines().count())),
            }
        }

        fn unreadable(path: &Path, error: &io::Error) -> String {
            format!("{}: cannot be read: {error}", path.display())
        }
    }

    fn good(n: usize) -> String {
        (0..n).map(|n| format!("tenant-{n}\n")).collect()
    }

    /// Returns the number of tenants in the content that was taken, or the error.
    fn looked(file: &mut State) -> Option<Result<usize, String>> {
        let found = text::<Tenants>(&file.path);
        file.look::<Tenants>(found).map(|read| read.map(|tenants| tenants.0))
    }

    #[test]
    fn a_file_that_is_half_written_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tenants.txt");
        let mut file = State::new(path.clone(), &good(2));
        let whole = "tenant-0 quarantined\ntenant-1\n";
        // Each of these is valid: the first without any tenant, the second without what restricts one.
        for bytes in [0, 8, 21] {
            let part = &whole[..bytes];
            assert!(Tenants::parse(&path, part).is_ok(), "{part}");
            std::fs::write(&path, part).unwrap();
            assert_eq!(looked(&mut file), None, "more may come: {part}");
        }
        std::fs::write(&path, whole).unwrap();
        assert_eq!([looked(&mut file), looked(&mut file)], [None, Some(Ok(2))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_half_written_at_the_start_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tenants.txt");
        let whole = "tenant-0 quarantined\n";
        std::fs::write(&path, "tenant-0").unwrap();
        let mut start = Box::pin(read_when_stable::<Tenants>(&path));
        assert!(futures::poll!(&mut start).is_pending(), "more may come");
        std::fs::write(&path, whole).unwrap();
        assert_eq!(start.await.unwrap(), whole);
        assert!(read_when_stable::<Tenants>(&dir.path().join("none")).await.unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn each_content_that_stays_is_reported_once_right_or_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let path = dir.join("tenants.txt");
        let read_twice = |file: &mut State| {
            assert_eq!(looked(file), None, "one look is not enough");
            looked(file)
        };
        std::fs::write(&path, good(1)).unwrap();
        let mut file = State::new(path.clone(), &good(1));
        assert_eq!(read_twice(&mut file), None, "nothing changed");
        std::fs::write(&path, good(1)).unwrap();
        assert_eq!(read_twice(&mut file), None, "written again, with the same content");
        std::fs::write(&path, good(2)).unwrap();
        assert_eq!(read_twice(&mut file), Some(Ok(2)));
        std::fs::write(&path, "tenant-0\nb1\n").unwrap();
        let wrong = format!("{}:2: not a tenant", path.display());
        assert_eq!(read_twice(&mut file), Some(Err(wrong)));
        assert_eq!(read_twice(&mut file), None, "reported once");
        std::fs::remove_file(&path).unwrap();
        assert!(read_twice(&mut file).unwrap().unwrap_err().contains("cannot be read"));
        assert_eq!(read_twice(&mut file), None, "reported once");
        std::fs::write(&path, good(2)).unwrap();
        assert_eq!(read_twice(&mut file), Some(Ok(2)), "again what is in force: that is news after it was not");
        // As a mount of a Secret or ConfigMap does it: the file is a link into a folder that is a link.
        std::fs::remove_file(&path).unwrap();
        for n in [3, 4] {
            let version = dir.join(format!("..{n}"));
            std::fs::create_dir_all(&version).unwrap();
            std::fs::write(version.join("tenants.txt"), good(n)).unwrap();
            let swap = dir.join("..tmp");
            std::os::unix::fs::symlink(&version, &swap).unwrap();
            std::fs::rename(&swap, dir.join("..data")).unwrap();
            if n == 3 {
                std::os::unix::fs::symlink("..data/tenants.txt", &path).unwrap();
            }
            assert_eq!(read_twice(&mut file), Some(Ok(n)));
        }
    }
}
