//! Notices a list without end, whose continue tokens lead in a circle or to nothing. Pure.

use gimbal_kubernetes_objects::Object;

use crate::ApiError;

/// How many pages may be empty, more than there are objects. A server fills its pages as far as it can.
const EMPTY_PAGES: u32 = 1000;

/// The continue tokens of one list.
///
/// A server's tokens move forward through its keys, so a token that comes twice leads to the same pages again. One token is
/// kept, and replaced after 1, 2, 4, 8 .. pages: every circle is found before it is walked four times.
#[derive(Debug, Default)]
pub(crate) struct PageTokens {
    pages: u32,
    objects: usize,
    kept: Option<String>,
}

impl PageTokens {
    /// Takes the token of the next page, and the number of objects in the page before.
    ///
    /// # Errors
    /// When the token was there before, or most pages are empty: the list has no end.
    pub(crate) fn check<T: Object>(&mut self, token: &str, objects: usize) -> Result<(), ApiError> {
        let endless = |why| {
            let message = format!("a list of {} has no end: {why}", T::KIND.plural);
            Err(ApiError::Undecodable { message })
        };
        if self.kept.as_deref() == Some(token) {
            return endless("a continue token comes again");
        }
        self.pages = self.pages.saturating_add(1);
        self.objects = self.objects.saturating_add(objects);
        if self.pages.saturating_sub(EMPTY_PAGES) as usize > self.objects {
            return endless("most of its pages are empty");
        }
        if self.pages.is_power_of_two() {
            self.kept = Some(token.to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use gimbal_kubernetes_objects::Service;

    use super::*;

    #[test]
    fn every_circle_is_found() {
        for (before, length) in [(0, 1), (0, 2), (3, 1), (3, 5), (100, 7), (1, 1000)] {
            let mut tokens = PageTokens::default();
            let circle = (before..before + length).cycle();
            let walked =
                (0..before).chain(circle).take_while(|n| tokens.check::<Service>(&n.to_string(), 1).is_ok()).count();
            assert!(walked <= 2 * before + 4 * length, "{walked} pages before {before} + {length} were noticed");
        }
    }

    #[test]
    fn a_long_list_has_an_end() {
        let mut tokens = PageTokens::default();
        assert!((0..10_000).all(|n| tokens.check::<Service>(&n.to_string(), 1).is_ok()));
    }

    #[test]
    fn tokens_that_lead_to_no_objects_are_noticed() {
        let mut tokens = PageTokens::default();
        tokens.check::<Service>("objects", 500).unwrap();
        let walked = (0..10_000).take_while(|n| tokens.check::<Service>(&n.to_string(), 0).is_ok()).count();
        assert_eq!(walked, 1499);
    }
}
