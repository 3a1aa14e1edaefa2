//! Answers what the page asks about Services.

use axum::http::Uri;
use gimbal_transport::{Part, Viewer};
use gimbal_wire::pb;
use serde_json::{Value, json};

use crate::{PageSource, Refusal, shown};

/// Most Services that one answer has.
const SHOWN: usize = 100;
/// Most bytes of a query: names of Kubernetes are shorter.
const LONGEST: usize = 2048;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PageQuery {
    /// A part of the name.
    pub(super) text: String,
    /// The backend; empty: every one.
    pub(super) backend: String,
    /// The Service in its source, as namespace/name.
    pub(super) service: String,
    /// Only those that are rejected, held or pending.
    pub(super) only_trouble: bool,
}

impl PageQuery {
    /// Reads the query of a URL.
    pub(super) fn read(uri: &Uri) -> Result<Self, Refusal> {
        let text = uri.query().unwrap_or_default();
        if text.len() > LONGEST {
            return Err(Refusal::Failed(format!("the query has more than {LONGEST} bytes")));
        }
        let mut query = Self::default();
        for (name, value) in text.split('&').filter_map(|pair| pair.split_once('=')) {
            let value = decoded(value).ok_or_else(|| Refusal::Failed(format!("{name} is no text")))?;
            match name {
                "q" => query.text = value.to_lowercase(),
                "backend" => query.backend = value,
                "service" => query.service = value,
                "trouble" => query.only_trouble = value == "1",
                _ => {}
            }
        }
        Ok(query)
    }

    fn matches(&self, status: &pb::ServiceStatus) -> bool {
        let names = [&status.source, &status.target].into_iter().flatten();
        let mut names = names.map(|key| format!("{}/{}", key.namespace, key.name));
        names.any(|name| name.contains(&self.text))
    }
}

/// Decodes a value of a query, as browsers encode forms.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || (rest.next()? as char).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Returns the first Services that a query matches.
pub(super) async fn find(source: &dyn PageSource, query: &PageQuery) -> Result<Value, Refusal> {
    let request = pb::ListServicesRequest {
        backend: query.backend.clone(),
        only_trouble: query.only_trouble,
        ..pb::ListServicesRequest::default()
    };
    let (mut found, mut after) = (Vec::new(), None);
    while found.len() <= SHOWN {
        let Part { services, seen } = source.list_services(&Viewer::All, &request, after.as_ref()).await?;
        found.extend(services.into_iter().filter(|status| query.matches(status)));
        after = seen;
        if after.is_none() {
            break;
        }
    }
    let more = found.len() > SHOWN;
    let services: Vec<Value> = found.iter().take(SHOWN).map(shown::service).collect();
    Ok(json!({"services": services, "more": more}))
}

/// Explains a Service of a backend.
pub(super) async fn why(source: &dyn PageSource, query: &PageQuery) -> Result<pb::ExplainResponse, Refusal> {
    let named = query.service.split_once('/');
    let (namespace, name) = named.ok_or_else(|| Refusal::Failed("name a service as namespace/name".to_owned()))?;
    let key = Some(pb::ServiceKey { namespace: namespace.to_owned(), name: name.to_owned() });
    let object = pb::explain_request::Object::Source(pb::SourceRef { backend: query.backend.clone(), key });
    Ok(source.shown_reasons(pb::ExplainRequest { object: Some(object), ..pb::ExplainRequest::default() }).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &str) -> Option<PageQuery> {
        PageQuery::read(&uri.parse().unwrap()).ok()
    }

    #[test]
    fn queries_of_browsers() {
        let expected =
            PageQuery { text: "a b/ü".into(), backend: "node02".into(), only_trouble: true, ..PageQuery::default() };
        assert_eq!(read("/status/services?q=A+b%2F%C3%BC&backend=node02&trouble=1&x=y"), Some(expected));
        assert_eq!(read("/status/services"), Some(PageQuery::default()));
        for broken in ["q=%", "q=%f", "q=%zz", "q=%ff"] {
            assert_eq!(read(&format!("/status/services?{broken}")), None, "{broken}");
        }
        assert_eq!(read(&format!("/status/services?q={}", "x".repeat(LONGEST))), None);
    }

    #[test]
    fn a_service_is_found_by_either_name() {
        let key = |namespace: &str, name: &str| Some(pb::ServiceKey { namespace: namespace.into(), name: name.into() });
        let status = pb::ServiceStatus {
            source: key("team1", "web"),
            target: key("mapped", "node02-web"),
            ..pb::ServiceStatus::default()
        };
        let matches = |text: &str| PageQuery { text: text.into(), ..PageQuery::default() }.matches(&status);
        assert!(["", "web", "team1/w", "node02-", "mapped/"].into_iter().all(matches));
        assert!(!matches("team2"));
    }
}
