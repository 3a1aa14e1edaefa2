//! Recognizes the body of a service's own error, as opposed to the page of a proxy before it. Pure.

use gimbal_error_text::first_line;
use serde::Deserialize;

use crate::ServiceType;

/// The forms of errors. Only their required fields make a form.
#[derive(Deserialize)]
#[serde(untagged)]
enum Fault {
    /// Octavia, where its API classes refuse.
    Octavia {
        #[serde(rename = "faultcode")]
        _code: String,
        #[serde(rename = "faultstring")]
        words: String,
    },
    /// Neutron, also neutron-lbaas.
    Neutron {
        #[serde(rename = "NeutronError")]
        error: NeutronError,
    },
    /// Keystone, and its middleware in each service.
    Keystone { error: KeystoneError },
    /// Barbican; Octavia, where a refusal passes its API classes by, as for members of a pool that is gone.
    Plain {
        code: u16,
        #[serde(rename = "title")]
        _title: String,
        description: String,
    },
}

#[derive(Deserialize)]
struct NeutronError {
    #[serde(rename = "type")]
    _kind: String,
    message: String,
}

#[derive(Deserialize)]
struct KeystoneError {
    code: u16,
    #[serde(rename = "title")]
    _title: String,
    message: String,
}

/// Returns the words of the error in `body`, which came with `status`, if `service` itself wrote it.
pub(crate) fn service_fault(service: ServiceType, status: u16, body: &[u8]) -> Option<String> {
    use ServiceType::{KeyManager, LoadBalancer, Network};
    let words = match (serde_json::from_slice::<Fault>(body).ok()?, service) {
        (Fault::Octavia { words, .. }, LoadBalancer) => words,
        // neutron-lbaas is a part of Neutron.
        (Fault::Neutron { error }, LoadBalancer | Network) => error.message,
        (Fault::Keystone { error }, _) if error.code == status => error.message,
        (Fault::Plain { code, description, .. }, LoadBalancer | KeyManager) if code == status => description,
        _ => return None,
    };
    Some(first_line(&words))
}
