//! Secrets of a key manager. Their lists have offsets where others have markers, and say how many there are.
//!
//! Secrets of others come and go while a list is read, and what goes moves all that comes after it. So pages overlap: the list is
//! in the order of creation, and a page that has something which is known follows on it.

use std::collections::HashSet;
use std::time::Duration;

use http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use crate::service::below;
use crate::session::base_url;
use crate::transport::ApiRequest;
use crate::{CallLabels, Error, ServiceEndpoint, Session, Verb};

/// The longest page: `max_limit_paging` of a key manager that is not configured.
const PAGE: usize = 100;
/// The rows that a page has in common with the one before, if nothing has gone.
const OVERLAP: usize = 10;
/// How often a page may have nothing in common with the one before: it is read again from further up.
const BACK: u32 = 20;
/// The most rows.
const ROWS: usize = 1_000_000;
/// How long a page may take. Whoever waits for it has other things to do.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct SecretPage {
    secrets: Vec<Value>,
    total: usize,
}

/// What was read of a list.
#[derive(Default)]
struct SecretWalk {
    rows: Vec<Value>,
    known: HashSet<String>,
    /// Where the next page begins.
    offset: usize,
    back: u32,
}

impl SecretWalk {
    /// Takes the page at the offset. Returns whether it was the last one.
    fn add(&mut self, page: SecretPage) -> Result<bool, Error> {
        let reference = |row: &Value| row["secret_ref"].as_str().map(str::to_owned);
        let follows = page.secrets.iter().filter_map(reference).any(|one| self.known.contains(&one));
        if self.offset > 0 && !follows {
            self.back += 1;
            if self.back > BACK {
                let message = "the list of secrets loses more than a page each time that it is read".to_owned();
                return Err(Error::Cut { message });
            }
            self.offset = self.offset.saturating_sub(PAGE);
            return Ok(false);
        }
        let end = self.offset + page.secrets.len();
        if page.secrets.is_empty() && end < page.total {
            let message = format!("the list of secrets ends after {end} of {} rows", page.total);
            return Err(Error::Cut { message });
        }
        for row in page.secrets {
            if reference(&row).is_some_and(|one| self.known.insert(one)) {
                self.rows.push(row);
            }
        }
        if self.rows.len() > ROWS {
            return Err(Error::RepeatedPage { message: format!("secrets: no end after {ROWS} rows") });
        }
        // Also where a server's pages are shorter than the overlap the list goes on.
        self.offset = end.saturating_sub(OVERLAP).max(self.offset + 1);
        Ok(end >= page.total)
    }
}

impl Session {
    /// Lists what the key manager says of the secrets of the token's project; none of them is shown. What comes or goes meanwhile
    /// is in the list or not.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Cut`] if too much of the list goes while it is read.
    pub async fn secrets(&self, at: &ServiceEndpoint) -> Result<Vec<Value>, Error> {
        let mut walk = SecretWalk::default();
        while !walk.add(self.page_of_secrets(at, walk.offset).await?)? {}
        Ok(walk.rows)
    }

    async fn page_of_secrets(&self, at: &ServiceEndpoint, offset: usize) -> Result<SecretPage, Error> {
        let token = self.token().await?;
        let mut url = below(&base_url(&token, at)?, &["secrets"])?;
        let (limit, offset) = (PAGE.to_string(), offset.to_string());
        url.query_pairs_mut().extend_pairs([("sort", "created:asc,name:asc"), ("limit", &limit), ("offset", &offset)]);
        let mut headers = HeaderMap::new();
        headers.insert("x-auth-token", token.value.clone());
        let labels = CallLabels { service: at.service(), verb: Verb::List, resource: "secret" };
        let mut question = ApiRequest::get_as(Some(labels), url, headers);
        question.timeout = Some(TIMEOUT);
        let answer = self.ask(token, question).await?;
        let undecodable =
            |error: serde_json::Error| Error::Undecodable { message: format!("a page of secrets: {error}") };
        serde_json::from_slice(&answer.body).map_err(undecodable)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Reads a list of which `change` changes something before each page.
    fn read(mut all: Vec<u32>, most: usize, mut change: impl FnMut(usize, &mut Vec<u32>)) -> Result<Vec<u32>, String> {
        let mut walk = SecretWalk::default();
        for pages in 0..10_000 {
            change(pages, &mut all);
            let secrets = all.iter().skip(walk.offset).take(most.min(PAGE));
            let secrets = secrets.map(|number| json!({"secret_ref": number.to_string()})).collect();
            if walk.add(SecretPage { secrets, total: all.len() }).map_err(|error| error.to_string())? {
                let number = |row: &Value| row["secret_ref"].as_str().unwrap().parse().unwrap();
                return Ok(walk.rows.iter().map(number).collect());
            }
        }
        panic!("no end");
    }

    #[test]
    fn a_list_that_does_not_change_is_read_as_it_is() {
        for (count, most) in
            [(0, PAGE), (1, PAGE), (99, PAGE), (100, PAGE), (101, PAGE), (1_000, PAGE), (57, 7), (30, 2)]
        {
            let all: Vec<u32> = (0..count).collect();
            assert_eq!(read(all.clone(), most, |_, _| {}), Ok(all), "{count} in pages of {most}");
        }
    }

    /// What is there all the time is in the list, whatever others do.
    #[test]
    fn secrets_of_others_come_and_go_meanwhile() {
        for gone in [1, 5, 30, 150] {
            let all: Vec<u32> = (0..1_000).collect();
            let mut next = 1_000;
            let found = read(all, PAGE, |pages, all| {
                // The odd ones at the beginning go.
                let mut left = gone;
                all.retain(|number| {
                    let goes = pages > 0 && pages < 4 && number % 2 == 1 && *number < 400 && left > 0;
                    left -= usize::from(goes);
                    !goes
                });
                all.push(next);
                next += 1;
            });
            let found: HashSet<u32> = found.unwrap().into_iter().collect();
            assert!(
                (0..1_000).filter(|number| number % 2 == 0).all(|number| found.contains(&number)),
                "{gone} at a time"
            );
        }
    }

    #[test]
    fn a_list_that_cannot_be_whole_is_an_error() {
        let cut = read((0..1_000).collect(), PAGE, |pages, all| {
            *all = (0..1_000).map(|number| u32::try_from(pages).unwrap() * 1_000 + number).collect();
        });
        assert!(cut.unwrap_err().contains("loses more than a page"));
        let mut walk = SecretWalk::default();
        assert!(walk.add(SecretPage { secrets: Vec::new(), total: 3 }).is_err());
    }
}
