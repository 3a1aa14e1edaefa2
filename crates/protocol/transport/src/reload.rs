//! When what the files hold now is to be taken. Nothing here reads a file or a clock.
//!
//! Files are replaced while they are read: one after another, in pieces, or all at once behind a link. What was read
//! counts when the next look finds the same. Whoever follows files, of certificates or of anything else, does it by this.

/// What a look at the files found: a digest of all their content, or that they cannot be read.
pub type Look = Result<[u8; 32], String>;

/// What to do after a look.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Rest,
    /// Look once more, soon.
    LookAgain,
    /// Take what was read, and tell [`Follow::took`] how that went.
    Take,
    /// Tell that the files cannot be read; what was taken before stays.
    Tell,
    /// The files hold again what was taken before they went wrong.
    Mended,
}

/// See the module.
#[derive(Debug)]
pub struct Follow {
    taken: [u8; 32],
    last: Look,
    /// What was told to be wrong.
    wrong: Option<Look>,
}

impl Follow {
    /// Begins with files whose content was taken already.
    #[must_use]
    pub fn new(taken: [u8; 32]) -> Self {
        Self { taken, last: Ok(taken), wrong: None }
    }

    /// Takes in what a look at the files found.
    pub fn look(&mut self, found: Look) -> Step {
        if self.last != found {
            self.last = found;
            return Step::LookAgain;
        }
        if found == Ok(self.taken) {
            return if self.wrong.take().is_some() { Step::Mended } else { Step::Rest };
        }
        if self.wrong.as_ref() == Some(&found) {
            return Step::Rest;
        }
        match found {
            Ok(_) => Step::Take,
            Err(_) => {
                self.wrong = Some(found);
                Step::Tell
            }
        }
    }

    /// How it went with what was found last. What is no good is not tried again until it changes.
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

    fn steps(follow: &mut Follow, looks: &[Look]) -> Vec<Step> {
        looks.iter().map(|look| follow.look(look.clone())).collect()
    }

    #[test]
    fn what_stays_is_taken_once() {
        use Step::{LookAgain, Rest, Take};
        let mut follow = follow();
        assert_eq!(steps(&mut follow, &[A, A, B, B]), [Rest, Rest, LookAgain, Take]);
        follow.took(true);
        assert_eq!(steps(&mut follow, &[B, B, A, A]), [Rest, Rest, LookAgain, Take], "back to the first as well");
    }

    #[test]
    fn what_is_passing_is_not_taken() {
        use Step::{LookAgain, Rest, Take};
        assert_eq!(steps(&mut follow(), &[B, C, gone(), A, A]), [LookAgain, LookAgain, LookAgain, LookAgain, Rest]);
        assert_eq!(steps(&mut follow(), &[B, C, C]), [LookAgain, LookAgain, Take]);
    }

    #[test]
    fn what_is_wrong_is_told_once() {
        use Step::{LookAgain, Mended, Rest, Take, Tell};
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
