//! Decides when changed files are loaded. Does no I/O and reads no clock.
//!
//! Files may change while they are read: one after another, in pieces, or all at once behind a symbolic link. So new
//! content counts only when the next read finds the same content. This is not specific to certificates.

/// The result of a read: a digest of all content, or why the files cannot be read.
pub type Look = Result<[u8; 32], String>;

/// What the caller does after a read.
#[derive(Debug, PartialEq, Eq)]
pub enum ReloadStep {
    /// Nothing changed since the last step, so wait for the next read.
    Rest,
    /// The content changed. Read it again soon to confirm it.
    LookAgain,
    /// Load the content, and report the result with [`Follow::took`].
    Take,
    /// Report that the files cannot be read. The content loaded before stays in use.
    Tell,
    /// The files have the loaded content again after a problem.
    Mended,
}

/// Tracks the content of a set of files.
#[derive(Debug)]
pub struct Follow {
    taken: [u8; 32],
    last: Look,
    /// The problem that was reported last, if it is not over: unreadable files, or the digest of content that could not
    /// be loaded.
    wrong: Option<Look>,
}

impl Follow {
    /// Creates a tracker for files whose content is already loaded.
    #[must_use]
    pub fn new(taken: [u8; 32]) -> Self {
        Self { taken, last: Ok(taken), wrong: None }
    }

    /// Records the result of a read, and returns what to do.
    pub fn look(&mut self, found: Look) -> ReloadStep {
        if self.last != found {
            self.last = found;
            return ReloadStep::LookAgain;
        }
        if found == Ok(self.taken) {
            return if self.wrong.take().is_some() { ReloadStep::Mended } else { ReloadStep::Rest };
        }
        if self.wrong.as_ref() == Some(&found) {
            return ReloadStep::Rest;
        }
        match found {
            Ok(_) => ReloadStep::Take,
            Err(_) => {
                self.wrong = Some(found);
                ReloadStep::Tell
            }
        }
    }

    /// Records whether the content found last could be loaded. Content that could not is not tried again until it
    /// changes.
    pub fn took(&mut self, good: bool) {
        match (good, &self.last) {
            (true, Ok(digest)) => {
                self.taken = *digest;
                self.wrong = None;
            }
            _ => self.wrong = Some(self.last.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Look = Ok([1; 32]);
    const B: Look = Ok([2; 32]);
    const C: Look = Ok([3; 32]);

    fn gone() -> Look {
        Err("no such file".into())
    }

    fn follow() -> Follow {
        Follow::new([1; 32])
    }

    fn steps(follow: &mut Follow, looks: &[Look]) -> Vec<ReloadStep> {
        looks.iter().map(|look| follow.look(look.clone())).collect()
    }

    #[test]
    fn what_stays_is_taken_once() {
        use ReloadStep::{LookAgain, Rest, Take};
        let mut follow = follow();
        assert_eq!(steps(&mut follow, &[A, A, B, B]), [Rest, Rest, LookAgain, Take]);
        follow.took(true);
        assert_eq!(steps(&mut follow, &[B, B, A, A]), [Rest, Rest, LookAgain, Take], "back to the first as well");
    }

    #[test]
    fn what_is_passing_is_not_taken() {
        use ReloadStep::{LookAgain, Rest, Take};
        assert_eq!(steps(&mut follow(), &[B, C, gone(), A, A]), [LookAgain, LookAgain, LookAgain, LookAgain, Rest]);
        assert_eq!(steps(&mut follow(), &[B, C, C]), [LookAgain, LookAgain, Take]);
    }

    #[test]
    fn what_is_wrong_is_told_once() {
        use ReloadStep::{LookAgain, Mended, Rest, Take, Tell};
        let mut follow = follow();
        assert_eq!(steps(&mut follow, &[gone(), gone(), gone()]), [LookAgain, Tell, Rest]);
        assert_eq!(steps(&mut follow, &[A, A, A]), [LookAgain, Mended, Rest]);
        assert_eq!(steps(&mut follow, &[B, B]), [LookAgain, Take]);
        follow.took(false);
        assert_eq!(steps(&mut follow, &[B, B, C, C]), [Rest, Rest, LookAgain, Take]);
        follow.took(true);
        assert_eq!(steps(&mut follow, &[C, gone(), gone()]), [Rest, LookAgain, Tell], "anew after it was good");
    }
}
