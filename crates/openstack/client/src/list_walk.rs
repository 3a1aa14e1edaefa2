//! Walks through the pages of one list. Pure: the caller passes each page's IDs and learns what to do next.

use std::collections::HashSet;

use crate::Error;

/// How often a list is restarted because the row that served as page marker was deleted.
const RESTARTS: u32 = 3;

/// More pages than can be read within one poll.
const PAGES: u32 = 10_000;

/// More rows of one kind than any known cloud has.
const ROWS: usize = 1_000_000;

/// What to do with a page, and whether the list is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkStep {
    /// The rows belong to the list, and more may follow after [`Walk::marker`].
    More,
    /// The rows belong to the list, which is complete.
    Last,
    /// The page repeats the first one, from a server without pagination: the list was complete before it.
    Echo,
}

/// The position in a list. Markers are made from the rows' IDs, because the server's links drop filters and fields.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    marker: Option<String>,
    seen: HashSet<String>,
    pages: u32,
    restarts: u32,
    /// Whether the server has ever offered a next page.
    offered: bool,
    /// Whether the server may truncate a list without saying so.
    silent: bool,
}

impl Walk {
    /// Returns a walk for a server that may truncate a list at an unknown length without saying so: only a page without
    /// new rows ends the list. Keystone truncates its list of projects at 1,000 in this way.
    pub(crate) fn of_a_silent_server() -> Self {
        Self { silent: true, ..Self::default() }
    }

    /// Returns the ID of the row after which the next page starts, or `None` for the first page.
    pub(crate) fn marker(&self) -> Option<&str> {
        self.marker.as_deref()
    }

    /// Called with the IDs of a page that was requested with `limit`, and whether the server offered a next one.
    ///
    /// The list ends with a page that is empty, or that has no next page and is not exactly full. A short page with a
    /// next page is not the end, because the server's maximum may be below our limit. A page longer than `limit`
    /// without a next page is the end, because a server that ignores the limit returns everything. After an exactly
    /// full page without a next page, one more is requested, because it may be either.
    pub(crate) fn add_page(
        &mut self,
        what: &str,
        ids: &[Option<String>],
        next: bool,
        limit: u32,
    ) -> Result<WalkStep, Error> {
        self.offered |= next;
        if let Some(Some(first)) = ids.first()
            && self.seen.contains(first)
        {
            // Mitaka's Neutron without pagination ignores the marker, so the list has one page.
            let as_long = self.silent || self.seen.len() == ids.len();
            return match self.pages == 1 && !self.offered && as_long {
                true => Ok(WalkStep::Echo),
                false => Err(Error::RepeatedPage {
                    message: format!("{what}: page {} starts with {first}, which an earlier one had", self.pages + 1),
                }),
            };
        }
        self.pages += 1;
        if ids.is_empty() && next {
            // No service does that, and what follows cannot be asked for without a row.
            let message =
                format!("{what}: page {} is empty and offers a next one, so the list is not whole", self.pages);
            return Err(Error::Undecodable { message });
        }
        if ids.is_empty() || (!next && !self.silent && ids.len() != limit as usize) {
            return Ok(WalkStep::Last);
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
        Ok(WalkStep::More)
    }

    /// Restarts the list and drops what was read so far. Returns false if it was restarted too often.
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

    /// Passes pages (IDs; `*` at the end offers a next page) to a walk with limit 3. Returns the outcome and the number
    /// of pages read.
    fn play(pages: &[&str]) -> (String, usize) {
        let mut walk = Walk::default();
        for (count, page) in pages.iter().enumerate() {
            let next = page.ends_with('*');
            let ids = ids(page.trim_end_matches('*'));
            match walk.add_page("pools", &ids, next, 3) {
                Ok(WalkStep::More) => assert_eq!(walk.marker(), ids.last().unwrap().as_deref()),
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
            // A gateway, or a fault: what is missing must not be taken for gone.
            (
                vec!["*"],
                "cannot read the answer: pools: page 1 is empty and offers a next one, so the list is not whole",
                1,
            ),
            (
                vec!["a b c *", "*"],
                "cannot read the answer: pools: page 2 is empty and offers a next one, so the list is not whole",
                2,
            ),
            // The server's maximum is 2, below our limit.
            (vec!["a b *", "c d *", "e"], "Last", 3),
            // An exactly full page without a next page: only another request shows whether more follows.
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
            // A row without an ID does not matter unless it is the last one.
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
            // A server without markers returns everything twice; rows may be added or removed in between.
            (vec!["a b", "a b"], "Echo"),
            (vec!["a b c d", "a b c d e"], "Echo"),
            (vec!["a b c d", "a c d"], "Echo"),
        ] {
            let mut walk = Walk::of_a_silent_server();
            let mut steps = pages.iter().map(|page| {
                walk.add_page("projects", &ids(page.trim_end_matches('*')), page.ends_with('*'), 1000).unwrap()
            });
            assert_eq!(steps.by_ref().map(|step| format!("{step:?}")).find(|step| step != "More").unwrap(), end);
            assert!(steps.next().is_none(), "{pages:?}");
        }
        // The server says that the list is truncated, and returns no further page.
        let mut walk = Walk::of_a_silent_server();
        walk.add_page("projects", &ids("a b"), true, 1000).unwrap();
        walk.add_page("projects", &ids("a b"), true, 1000).unwrap_err();
    }

    #[test]
    fn a_restart_forgets_and_is_bounded() {
        let mut walk = Walk::default();
        for _ in 0..RESTARTS {
            assert_eq!(walk.add_page("pools", &ids("a b c"), true, 3).unwrap(), WalkStep::More);
            assert!(walk.restart());
            assert_eq!((walk.marker(), walk.pages), (None, 0));
        }
        assert!(!walk.restart());
    }

    #[test]
    fn a_list_without_end_ends() {
        let mut walk = Walk::default();
        let end = (0..).find_map(|page| walk.add_page("pools", &ids(&page.to_string()), true, 3).err());
        assert_eq!(end.unwrap().to_string(), "the server repeats itself: pools: no end after 10000 pages");
    }
}
