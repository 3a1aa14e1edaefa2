//! Reads of objects as JSON, for callers that compare whole objects with what they want.

use gimbal_octavia_rows::CompleteList;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use crate::paged_list::PagedList;
use crate::service::below;
use crate::session::base_url;
use crate::transport::ApiRequest;
use crate::{CallLabels, Error, ServiceEndpoint, Session, Verb};

/// What to read: a collection with filters, or one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawQuery {
    resource: &'static str,
    key: &'static str,
    path: Vec<String>,
    parameters: Vec<(&'static str, String)>,
}

impl RawQuery {
    /// Returns a query of `path` below the service's endpoint. `resource` is the word for metric labels, so it must be one
    /// of a few; the rows, or the row, are under `key` in the answer.
    #[must_use]
    pub fn new(resource: &'static str, key: &'static str, path: &[&str]) -> Self {
        let path = path.iter().map(|segment| (*segment).to_owned()).collect();
        Self { resource, key, path, parameters: Vec::new() }
    }

    /// Adds a parameter, for instance `tags=a,b` or one `fields=id` for each field.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: &str) -> Self {
        self.parameters.push((key, value.to_owned()));
        self
    }
}

/// A row in which a pool refers to its members by their IDs alone, where Octavia says `{"id": ".."}`: as a map each takes ten times as
/// much memory, and a large cloud has hundreds of thousands of them.
struct ShortRow(Value);

impl From<Value> for ShortRow {
    fn from(mut row: Value) -> Self {
        let members = row.get_mut("members").and_then(Value::as_array_mut);
        for member in members.into_iter().flatten() {
            if let Some(id) =
                member.as_object_mut().filter(|fields| fields.len() == 1).and_then(|fields| fields.remove("id"))
            {
                *member = id;
            }
        }
        Self(row)
    }
}

/// A row in the form of the caller, into which it is brought as its page is read.
#[derive(Deserialize)]
#[serde(from = "Value", bound = "T: From<Value>")]
struct RowAs<T>(T);

impl<T: From<Value>> From<Value> for RowAs<T> {
    fn from(row: Value) -> Self {
        Self(T::from(ShortRow::from(row).0))
    }
}

impl Session {
    /// Lists objects, every page of them. A page that times out, or is too large, is requested again with a smaller limit. References to
    /// members are their IDs.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::NotFound`] if what the collection belongs to does not exist, and the service itself says so.
    pub async fn rows<T: From<Value>>(&self, at: &ServiceEndpoint, query: &RawQuery) -> Result<CompleteList<T>, Error> {
        let mut list = PagedList::<RowAs<T>>::new(query.key, self.shared.page_size(query.resource));
        loop {
            let page = list.parameters().iter().fold(query.clone(), |page, (key, value)| page.with(key, value));
            if list.add(self.raw(at, Verb::List, &page).await)? {
                break;
            }
        }
        let CompleteList { rows, unreadable, server_time } = list.complete();
        Ok(CompleteList { rows: rows.into_iter().map(|RowAs(row)| row).collect(), unreadable, server_time })
    }

    /// Reads one object; `None` if its service says that it does not exist.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::Refused`] for a 404 that somebody before the service has written.
    pub async fn row(&self, at: &ServiceEndpoint, query: &RawQuery) -> Result<Option<Value>, Error> {
        let answer = match self.raw(at, Verb::Get, query).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            answer => answer?,
        };
        let unreadable = |problem: &str| Error::Undecodable { message: format!("a {}: {problem}", query.resource) };
        let mut body: Value = serde_json::from_slice(&answer.body).map_err(|error| unreadable(&error.to_string()))?;
        match body.get_mut(query.key).map(Value::take) {
            Some(row @ Value::Object(_)) => Ok(Some(ShortRow::from(row).0)),
            _ => Err(unreadable(&format!("the answer has no object {}", query.key))),
        }
    }

    async fn raw(&self, at: &ServiceEndpoint, verb: Verb, query: &RawQuery) -> Result<crate::answer::Answer, Error> {
        let token = self.token().await?;
        let path: Vec<&str> = query.path.iter().map(String::as_str).collect();
        let mut url = below(&base_url(&token, at)?, &path)?;
        for (key, value) in &query.parameters {
            url.query_pairs_mut().append_pair(key, value);
        }
        let mut headers = HeaderMap::new();
        headers.insert("x-auth-token", token.value.clone());
        let labels = CallLabels { service: at.service(), verb, resource: query.resource };
        let mut question = ApiRequest::get_as(Some(labels), url, headers);
        question.timeout = (verb == Verb::List).then(|| self.shared.transport.list_timeout());
        self.ask(token, question).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_has_nothing_but_an_id_becomes_that() {
        let whole = json!({"id": "m2", "address": "10.0.0.1"});
        let row = json!({"id": "p", "members": [{"id": "m1"}, whole, "m3"], "listeners": [{"id": "l"}]});
        assert_eq!(
            ShortRow::from(row).0,
            json!({"id": "p", "members": ["m1", whole, "m3"], "listeners": [{"id": "l"}]})
        );
    }
}
