//! Names in the Gimbal cluster.
//!
//! The algorithm is that of the original Gimbal (<https://github.com/projectcontour/gimbal>), bit for bit, so that the
//! routes of its users stay valid. The table in the tests below was made with the original.

use sha2::{Digest as _, Sha256};

use crate::BackendName;

/// Longest name of a Kubernetes Service, and longest label value.
const LIMIT: usize = 63;
/// Hexadecimal digits of the hash that replaces a component's tail.
const HASH: usize = 6;

/// Returns the name of the mirrored Service: `<backend>-<service>`, shortened if it has 63 characters or more.
#[must_use]
pub fn service_name(backend: &BackendName, service: &str) -> String {
    shorten(LIMIT, &[backend.as_str(), service])
}

/// Returns a label value: `value` itself up to 63 characters, else its head and a hash.
#[must_use]
pub fn label_value(value: &str) -> String {
    shorten(LIMIT, &[value])
}

/// Joins `components` with `-`. While the result has `limit` bytes or more, components are shortened from the last to
/// the first: one longer than `limit / components` keeps its head, followed by the first six hexadecimal digits of the
/// SHA-256 of the whole.
///
/// The original cuts bytes; a cut within a character moves back to the character's start.
#[must_use]
pub fn shorten(limit: usize, components: &[&str]) -> String {
    let mut parts: Vec<String> = components.iter().map(ToString::to_string).collect();
    let mut joined = parts.join("-");
    let share = limit.checked_div(parts.len()).unwrap_or(limit);
    for at in (0..parts.len()).rev() {
        if joined.len() < limit {
            break;
        }
        if parts[at].len() > share {
            parts[at] = cut(&parts[at], share);
            joined = parts.join("-");
        }
    }
    joined
}

fn cut(component: &str, limit: usize) -> String {
    let mut keep = limit.saturating_sub(HASH).min(component.len());
    while !component.is_char_boundary(keep) {
        keep -= 1;
    }
    let hash: String = Sha256::digest(component.as_bytes()).iter().take(HASH / 2).map(|b| format!("{b:02x}")).collect();
    format!("{}{hash}", &component[..keep])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as the original Gimbal makes them.
    #[test]
    fn as_the_original() {
        let long = "the-really-long-kube-service-name-that-is-exactly-63-characters";
        let x60 = "x".repeat(60);
        let x61 = "x".repeat(61);
        for (backend, service, name) in [
            ("us-east-cluster", long, "us-east-cluster-the-really-long-kube-serv1feeec".to_string()),
            ("b", &x61, "b-xxxxxxxxxxxxxxxxxxxxxxxxxc508e7".into()),
            ("b", &x60, format!("b-{x60}")),
            (
                "a-backend-whose-name-is-itself-longer-than-thirty-one-characters",
                long,
                "a-backend-whose-name-is-i0c6452-the-really-long-kube-serv1feeec".into(),
            ),
            ("node02", "nginx", "node02-nginx".into()),
            (
                "abcdefghijklmnopqrstuvwxyzabcdefghijkl",
                "abcdefghijklmnopqrstuvwxyz",
                "abcdefghijklmnopqrstuvwxy9e0d26-abcdefghijklmnopqrstuvwxyz".into(),
            ),
        ] {
            assert_eq!(shorten(LIMIT, &[backend, service]), name);
        }
    }

    #[test]
    fn label_values_as_the_original() {
        for n in [1, 62, 63] {
            assert_eq!(label_value(&"y".repeat(n)), "y".repeat(n));
        }
        assert_eq!(label_value(&"z".repeat(80)), format!("{}a32af4", "z".repeat(57)));
    }

    #[test]
    fn cuts_between_characters() {
        assert!(label_value(&"é".repeat(60)).len() <= LIMIT);
    }
}
