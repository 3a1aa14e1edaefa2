//! What an answer says about a change: whether it happened, did not happen, or may have happened. Pure.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::de::IgnoredAny;

use crate::answer::{refusal, retry_after};
use crate::complaint::{complaint, is_provider_failure};
use crate::service_fault::service_fault;
use crate::{Complaint, Error, ServiceType};

/// The outcome of a mutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MutationResult {
    /// The service took the change: the JSON body of its answer, empty if there is none.
    Accepted(Bytes),
    /// Nothing was sent, so the change did not happen.
    NotSent(NotSent),
    /// The service answered that it does not make the change.
    Refused(MutationRefusal),
    /// The provider's driver failed (500), or was not found (501). The service has undone its own part, but the provider may have
    /// made the change, whole or in part. Look before anything is repeated.
    ProviderFailed(Error),
    /// The change may or may not have happened. Look it up before anything is repeated.
    Unknown(Error),
}

/// Why a change was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSent {
    /// The permit refused when the request was about to be written.
    NotPermitted,
    /// There was no token, no endpoint or no connection, or the change cannot be written as a request.
    Failed(Error),
}

/// A service's refusal of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutationRefusal {
    /// The error, human-readable, with the server's `Retry-After` if there is one.
    pub error: Error,
    /// The status of the service's answer.
    pub status: u16,
    /// What the refusal means; `None` for a refusal that `error` describes well enough.
    pub complaint: Option<Complaint>,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct RawAnswer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl MutationResult {
    /// Classifies the answer to a mutation. `name` is the request's name in errors.
    pub(crate) fn of(name: &str, service: ServiceType, answer: RawAnswer) -> Self {
        let RawAnswer { status, headers, body } = answer;
        let code = status.as_u16();
        if status.is_success() {
            // A proxy's page with status 200 is not an answer of the service.
            let is_json = body.is_empty() || serde_json::from_slice::<IgnoredAny>(&body).is_ok();
            let message = || format!("{name}: {status} with a body that is not JSON");
            return if is_json {
                Self::Accepted(body)
            } else {
                Self::Unknown(Error::Undecodable { message: message() })
            };
        }
        // A key manager's words may repeat the secret in the request's body.
        let secret = service == ServiceType::KeyManager;
        let fault = service_fault(service, code, &body);
        let error = refusal(name, status, &headers, if secret { &[] } else { &body });
        let is_refusal = match code {
            // Tokens are checked before anything else.
            401 => true,
            // A proxy in front of the service gave up waiting for it, whatever its page looks like.
            408 | 502 | 504 => false,
            // A body that is too large is refused before the service begins, by a proxy or by the service.
            413 => true,
            // A limit on the rate of calls, possibly by a proxy, refuses before the service begins.
            429 => fault.is_some() || retry_after(&headers).is_some(),
            500 | 501 if fault.as_deref().is_some_and(is_provider_failure) => return Self::ProviderFailed(error),
            // A fault of any other kind may come after the commit.
            500 => false,
            _ => fault.is_some() && !status.is_redirection(),
        };
        if !is_refusal {
            return Self::Unknown(error);
        }
        let complaint = complaint(code, fault.as_deref().unwrap_or_default());
        let complaint = complaint.map(|complaint| if secret { without_words(complaint) } else { complaint });
        Self::Refused(MutationRefusal { error, status: code, complaint })
    }

    /// Returns the error, unless the change was accepted or not permitted.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Accepted(_) | Self::NotSent(NotSent::NotPermitted) => None,
            Self::Refused(refusal) => Some(&refusal.error),
            Self::NotSent(NotSent::Failed(error)) | Self::ProviderFailed(error) | Self::Unknown(error) => Some(error),
        }
    }
}

fn without_words(complaint: Complaint) -> Complaint {
    match complaint {
        Complaint::Validation { .. } => Complaint::Validation { detail: String::new() },
        Complaint::Unsupported { .. } => Complaint::Unsupported { what: String::new() },
        other => other,
    }
}

#[cfg(test)]
mod tests;
