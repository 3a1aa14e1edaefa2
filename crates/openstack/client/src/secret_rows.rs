//! Secrets of a key manager. Their lists have offsets where others have markers, and say how many there are.

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
/// How often a list is read again that changes while it is read.
const TRIES: u32 = 3;
/// How long a page may take. Whoever waits for it has other things to do.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct SecretPage {
    secrets: Vec<Value>,
    total: usize,
}

impl Session {
    /// Lists what the key manager says of the secrets of the token's project; none of them is shown.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Cut`] if the list goes on changing.
    pub async fn secrets(&self, at: &ServiceEndpoint) -> Result<Vec<Value>, Error> {
        for _ in 0..TRIES {
            if let Some(rows) = self.all_secrets(at).await? {
                return Ok(rows);
            }
        }
        Err(Error::Cut { message: "the list of secrets changes each time that it is read".to_owned() })
    }

    /// Returns every page of the list; `None` if it changed meanwhile: what is removed moves what comes after it.
    async fn all_secrets(&self, at: &ServiceEndpoint) -> Result<Option<Vec<Value>>, Error> {
        let (mut rows, mut known, mut total) = (Vec::new(), HashSet::new(), None);
        loop {
            let page = self.page_of_secrets(at, rows.len()).await?;
            if *total.get_or_insert(page.total) != page.total {
                return Ok(None);
            }
            let is_last = page.secrets.is_empty();
            for row in page.secrets {
                let is_new = row["secret_ref"].as_str().is_some_and(|reference| known.insert(reference.to_owned()));
                if !is_new {
                    return Ok(None);
                }
                rows.push(row);
            }
            if rows.len() >= page.total {
                return Ok(Some(rows));
            }
            if is_last {
                return Ok(None);
            }
        }
    }

    async fn page_of_secrets(&self, at: &ServiceEndpoint, offset: usize) -> Result<SecretPage, Error> {
        let token = self.token().await?;
        let mut url = below(&base_url(&token, at)?, &["secrets"])?;
        let (limit, offset) = (PAGE.to_string(), offset.to_string());
        url.query_pairs_mut().extend_pairs([("sort", "created:asc"), ("limit", &limit), ("offset", &offset)]);
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
