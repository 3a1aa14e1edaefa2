//! The way through the pages of one list. Pure: it is told what came and says what to do.

use std::collections::HashSet;

use crate::Error;

/// How often a list is begun anew because the row after which its next page was to start is gone.
const RESTARTS: u32 = 3;

/// More pages than any list that we can read to its end within a poll.
const PAGES: u32 = 10_000;

/// More rows than any cloud that we have heard of has of one kind.
const ROWS: usize = 1_000_000;

/// What a page means for the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Its rows belong to the list, and there may be more after [`Walk::marker`].
    More,
    /// Its rows belong to the list, which is complete.
    Last,
    /// It is the first page once more, from a server that has no pages: the list was complete before it.
    Echo,
}

/// A walk along markers of our own, since the server's links drop filters and fields.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    marker: Option<String>,
    seen: HashSet<String>,
    pages: u32,
    restarts: u32,
    /// Whether the server has ever said that there is a next page.
    offered: bool,
    /// Whether the server may cut a list short without a word.
    silent: bool,
}

impl Walk {
    /// Along a list that the server may cut short without a word, at a length that it keeps to itself: only a page that
    /// brings nothing new is its end. Keystone has cut its list of projects at 1,000 so.
    pub(crate) fn of_a_silent_server() -> Self {
        Self { silent: true, ..Self::default() }
    }

    /// After which row the next page starts; the beginning of the list without one.
    pub(crate) fn marker(&self) -> Option<&str> {
        self.marker.as_deref()
    }

    /// Takes the IDs of a page that was asked for with `limit`, and whether a next one was offered.
    ///
    /// The list ends with a page that is empty, or without an offer and not exactly full. A page that is too short but has an
    /// offer is not the end: a server's own maximum may be below our limit. A page that is too long is: a server that
    /// ignores the limit gives everything. Exactly full and without an offer may be either, so one more is asked for.
    pub(crate) fn took(&mut self, what: &str, ids: &[Option<String>], next: bool, limit: u32) -> Result<Step, Error> {
        self.offered |= next;
        if let Some(Some(first)) = ids.first()
            && self.seen.contains(first)
        {
            // Mitaka's Neutron without pagination: the marker is ignored, and so there was one page only.
            let as_long = self.silent || self.seen.len() == ids.len();
            return match self.pages == 1 && !self.offered && as_long {
                true => Ok(Step::Echo),
                false => Err(Error::RepeatedPage {
                    message: format!("{what}: page {} starts with {first}, which an earlier one had", self.pages + 1),
                }),
            };
        }
        self.pages += 1;
        if ids.is_empty() || (!next && !self.silent && ids.len() != limit as usize) {
            return Ok(Step::Last);
        }
        if self.pages >= PAGES {
            return Err(Error::RepeatedPage { message: format!("{what}: no end after {PAGES} pages") });
        }
        match ids.last() {
            Some(Some(last)) => self.marker = Some(last.clone()),
            _ => {
                let message = format!("{what}: the last row of a page has no id, so the next page cannot be asked for");
                return Err(Error::Undecodable { message });
            }
        }
        self.seen.extend(ids.iter().flatten().cloned());
        if self.seen.len() > ROWS {
            return Err(Error::RepeatedPage { message: format!("{what}: no end after {ROWS} rows") });
        }
        Ok(Step::More)
    }

    /// Begins anew, with what was read so far forgotten. False when that has happened too often.
    pub(crate) fn restart(&mut self) -> bool {
        let Self { restarts, offered, silent, .. } = *self;
        *self = Self { restarts: restarts + 1, offered, silent, ..Self::default() };
        self.restarts <= RESTARTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<Option<String>> {
        text.split_whitespace().map(|id| Some(id.to_owned()).filter(|id| id != "-")).collect()
    }

    /// Plays pages (`ids`, `*` at the end: a next one is offered) at a limit of 3; the outcome in a word, and the pages read.
    fn play(pages: &[&str]) -> (String, usize) {
        let mut walk = Walk::default();
        for (count, page) in pages.iter().enumerate() {
            let next = page.ends_with('*');
            let ids = ids(page.trim_end_matches('*'));
            match walk.took("pools", &ids, next, 3) {
                Ok(Step::More) => assert_eq!(walk.marker(), ids.last().unwrap().as_deref()),
                Ok(end) => return (format!("{end:?}"), count + 1),
                Err(error) => return (error.to_string(), count + 1),
            }
        }
        ("not at its end".to_owned(), pages.len())
    }

    #[test]
    fn where_a_list_ends() {
        for (pages, end, read) in [
            (vec![""], "Last", 1),
            (vec!["a b"], "Last", 1),
            (vec!["a b c *", "d"], "Last", 2),
            // Octavia offers a next page after every full one.
            (vec!["a b c *", ""], "Last", 2),
            // The server's maximum is 2, below our limit.
            (vec!["a b *", "c d *", "e"], "Last", 3),
            // Exactly full, with no offer: only the next page tells.
            (vec!["a b c", "d"], "Last", 2),
            (vec!["a b c", ""], "Last", 2),
            // No pages at all: the limit is ignored, or the marker.
            (vec!["a b c d e"], "Last", 1),
            (vec!["a b c", "a b c"], "Echo", 2),
            (
                vec!["a b c *", "a b c *"],
                "the server repeats itself: pools: page 2 starts with a, which an earlier one had",
                2,
            ),
            (
                vec!["a b c *", "d e f *", "e f g *"],
                "the server repeats itself: pools: page 3 starts with e, which an earlier one had",
                3,
            ),
            (
                vec!["a b c", "d e f", "a b c"],
                "the server repeats itself: pools: page 3 starts with a, which an earlier one had",
                3,
            ),
            (
                vec!["a b - *"],
                "cannot read the answer: pools: the last row of a page has no id, so the next page cannot be asked for",
                1,
            ),
            // A row without an id elsewhere is its own affair.
            (vec!["- b c *", "d"], "Last", 2),
        ] {
            assert_eq!(play(&pages), (end.to_owned(), read), "{pages:?}");
        }
    }

    #[test]
    fn a_server_that_cuts_in_silence_is_asked_until_nothing_new_comes() {
        for (pages, end) in [
            (vec!["a b", "c d", "e", ""], "Last"),
            (vec!["a b *", "c *", ""], "Last"),
            (vec![""], "Last"),
            // One that knows no markers: everything, twice; something may have come or gone in between.
            (vec!["a b", "a b"], "Echo"),
            (vec!["a b c d", "a b c d e"], "Echo"),
            (vec!["a b c d", "a c d"], "Echo"),
        ] {
            let mut walk = Walk::of_a_silent_server();
            let mut steps = pages.iter().map(|page| {
                walk.took("projects", &ids(page.trim_end_matches('*')), page.ends_with('*'), 1000).unwrap()
            });
            assert_eq!(steps.by_ref().map(|step| format!("{step:?}")).find(|step| step != "More").unwrap(), end);
            assert!(steps.next().is_none(), "{pages:?}");
        }
        // It says that it has cut, and cannot be asked for more.
        let mut walk = Walk::of_a_silent_server();
        walk.took("projects", &ids("a b"), true, 1000).unwrap();
        walk.took("projects", &ids("a b"), true, 1000).unwrap_err();
    }

    #[test]
    fn a_restart_forgets_and_is_bounded() {
        let mut walk = Walk::default();
        for _ in 0..RESTARTS {
            assert_eq!(walk.took("pools", &ids("a b c"), true, 3).unwrap(), Step::More);
            assert!(walk.restart());
            assert_eq!((walk.marker(), walk.pages), (None, 0));
        }
        assert!(!walk.restart());
    }

    #[test]
    fn a_list_without_end_ends() {
        let mut walk = Walk::default();
        let end = (0..).find_map(|page| walk.took("pools", &ids(&page.to_string()), true, 3).err());
        assert_eq!(end.unwrap().to_string(), "the server repeats itself: pools: no end after 10000 pages");
    }
}
