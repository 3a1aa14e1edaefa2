//! Kubernetes names made from OpenStack names.

use std::sync::Arc;

use gimbal_model::{label_value, shorten};
use gimbal_octavia_rows::{Id, LoadBalancer};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::options::ServiceName;
use gimbal_octavia_rows as rows;

/// One more than the maximum length of a source key's part in the protocol, because [`shorten`] stays below its limit.
const SOURCE_NAME: usize = 254;

/// Returns `text` in lower-case letters, digits and single inner `-`. Accents are dropped, and any other run of
/// characters becomes a `-`, or nothing at either end; the result may be empty.
#[must_use]
pub fn safe_name(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.nfkd().filter(|c| !is_combining_mark(*c)) {
        if c.is_ascii_alphanumeric() {
            safe.push(c.to_ascii_lowercase());
        } else if !safe.is_empty() && !safe.ends_with('-') {
            safe.push('-');
        }
    }
    if safe.ends_with('-') {
        safe.pop();
    }
    safe
}

/// Returns the name of a load balancer's Service in its source, or with `pool` the name of the Service for that pool.
pub(crate) fn source_name(by: ServiceName, load_balancer: &LoadBalancer, pool: Option<&Id>) -> Arc<str> {
    let name = match by {
        ServiceName::NameAndId => safe_name(&load_balancer.name),
        ServiceName::Id => String::new(),
    };
    let (id, pool) = (safe_name(load_balancer.id.as_str()), pool.map(|id| safe_name(id.as_str())));
    let parts: Vec<&str> =
        [&*name, &*id, pool.as_deref().unwrap_or("")].into_iter().filter(|part| !part.is_empty()).collect();
    shorten(SOURCE_NAME, &parts).into()
}

/// Returns the namespace that a project's name yields, or that its ID yields if the name has no character that
/// Kubernetes allows.
pub(crate) fn namespace(project: &rows::Project) -> Arc<str> {
    let name = match safe_name(&project.name) {
        name if name.is_empty() => safe_name(project.id.as_str()),
        name => name,
    };
    label_value(&name).into()
}

/// Returns a load balancer's name as a label value, as the original Gimbal wrote it.
pub(crate) fn name_label(name: &str) -> Arc<str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let mut value: String = name.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    let alphanumeric = |c: char| c.is_ascii_alphanumeric();
    if !value.is_empty() {
        if !value.starts_with(alphanumeric) {
            value.insert_str(0, "lb");
        }
        if !value.ends_with(alphanumeric) {
            value.push_str("lb");
        }
    }
    label_value(&value).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_balancer(name: &str, id: &str) -> LoadBalancer {
        LoadBalancer {
            id: Id::try_from(id).unwrap(),
            name: name.into(),
            project: Id::try_from("p").unwrap(),
            admin_state_up: true,
            provisioning: rows::ProvisioningStatus::Active,
            listeners: Vec::new(),
            pools: Vec::new(),
        }
    }

    #[test]
    fn safe_names() {
        for (text, expected) in [
            ("web", "web"),
            ("Web_Frontend (prod)", "web-frontend-prod"),
            ("  --a..b--  ", "a-b"),
            ("Müller & Söhne", "muller-sohne"),
            ("ﬁne①", "fine1"),
            ("ΩMEGA", "mega"),
            ("日本", ""),
            ("-", ""),
            ("", ""),
            ("a/b\u{0}c", "a-b-c"),
        ] {
            assert_eq!(safe_name(text), expected, "{text:?}");
        }
    }

    #[test]
    fn service_names() {
        let id = "5A493979-d7c5-4215-9ed1-60907e9e70b7";
        let lower = "5a493979-d7c5-4215-9ed1-60907e9e70b7";
        let pool = Id::try_from("29e3d484-7ada-4c50-bfc9-f4f644b51ab6").unwrap();
        let name = |by, name: &str, pool| source_name(by, &load_balancer(name, id), pool).to_string();
        assert_eq!(name(ServiceName::NameAndId, "Web 1", None), format!("web-1-{lower}"));
        assert_eq!(name(ServiceName::NameAndId, "", None), lower);
        assert_eq!(name(ServiceName::NameAndId, "日本", None), lower);
        assert_eq!(name(ServiceName::Id, "Web 1", None), lower);
        assert_eq!(name(ServiceName::NameAndId, "web", Some(&pool)), format!("web-{lower}-{pool}"));
        assert_eq!(name(ServiceName::Id, "web", Some(&pool)), format!("{lower}-{pool}"));
        // NFKD makes the longest name that OpenStack accepts up to 18 times longer (U+FDFA).
        for long in ["x".repeat(255), "x".repeat(216), "ﷺa".repeat(127), "½".repeat(255)] {
            let (one, two) =
                (name(ServiceName::NameAndId, &long, None), name(ServiceName::NameAndId, &long, Some(&pool)));
            assert!(one.len() <= 253 && two.len() <= 253, "{one} {two}");
            assert!(one.ends_with(&format!("-{lower}")) && two.ends_with(&format!("-{lower}-{pool}")), "{one} {two}");
        }
        let other = |last: char| name(ServiceName::NameAndId, &format!("{}{last}", "x".repeat(254)), None);
        assert_ne!(other('a'), other('b'));
    }

    #[test]
    fn labels_as_the_original() {
        for (name, expected) in [
            ("", ""),
            ("web.Front_1", "web.Front_1"),
            ("a b/c", "a-b-c"),
            ("_a", "lb_a"),
            ("é", "lb-lb"),
            ("a-", "a-lb"),
        ] {
            assert_eq!(&*name_label(name), expected, "{name:?}");
        }
        assert_eq!(&*name_label(&"z".repeat(80)), format!("{}a32af4", "z".repeat(57)));
    }

    #[test]
    fn namespaces() {
        let namespace =
            |name: &str| namespace(&rows::Project { id: Id::try_from("E9b7").unwrap(), name: name.into() }).to_string();
        assert_eq!(namespace("Team A"), "team-a");
        assert_eq!(namespace("日本"), "e9b7");
        assert_eq!(namespace(&"n".repeat(64)).len(), 63);
    }
}
