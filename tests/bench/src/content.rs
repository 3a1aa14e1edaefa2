//! Compares the published content with the source's: the figures of a scenario that lost content are worthless.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimbal_kubernetes_client::{Cluster, WatchScope};
use gimbal_kubernetes_objects::{EndpointSlice, keys};

/// The addresses of each Service that has any, by namespace and name in the Gimbal cluster.
pub type Content = BTreeMap<(String, String), BTreeSet<Arc<str>>>;

/// Returns the content that the writer published.
///
/// # Errors
/// The API server's error.
pub async fn published(gimbal: &Cluster) -> anyhow::Result<Content> {
    let label_selector = Some(format!("{}={}", keys::SLICE_MANAGED_BY, keys::MANAGER));
    let slices = gimbal.list::<EndpointSlice>(&WatchScope { label_selector, ..WatchScope::default() }).await?;
    Ok(content(&slices, ""))
}

/// Returns the content of a source, as it should be published for this backend.
///
/// # Errors
/// The API server's error.
pub async fn offered(source: &Cluster, backend: &str) -> anyhow::Result<Content> {
    let slices = source.list::<EndpointSlice>(&WatchScope::default()).await?;
    Ok(content(&slices, &format!("{backend}-")))
}

fn content(slices: &[EndpointSlice], prefix: &str) -> Content {
    let mut content = Content::new();
    for slice in slices {
        let Some(service) = slice.metadata.labels.get(keys::SERVICE_NAME) else { continue };
        let name = (slice.metadata.namespace.to_string(), format!("{prefix}{service}"));
        let addresses = slice.endpoints.iter().flat_map(|endpoint| endpoint.addresses.iter().cloned());
        content.entry(name).or_default().extend(addresses);
    }
    content
}

/// Compares both contents, and fails on the first difference.
///
/// # Errors
/// The difference.
pub fn same(published: &Content, wanted: &Content) -> anyhow::Result<()> {
    for (name, addresses) in wanted {
        let is = published.get(name);
        anyhow::ensure!(is == Some(addresses), "{name:?} is {is:?} and should be {addresses:?}");
    }
    let more = published.keys().find(|name| !wanted.contains_key(*name));
    anyhow::ensure!(more.is_none(), "{more:?} should not be there");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_difference_is_found() {
        let of = |names: &[(&str, &[&str])]| -> Content {
            let entry = |(name, addresses): &(&str, &[&str])| {
                (("team".to_owned(), (*name).to_owned()), addresses.iter().map(|address| (*address).into()).collect())
            };
            names.iter().map(entry).collect()
        };
        let wanted = of(&[("a", &["10.0.0.1"]), ("b", &["10.0.0.2", "10.0.0.3"])]);
        assert!(same(&wanted, &wanted).is_ok());
        for (wrong, part) in [
            (of(&[("a", &["10.0.0.1"])]), "\"b\") is None"),
            (of(&[("a", &["10.0.0.1"]), ("b", &["10.0.0.2"])]), "\"b\") is Some"),
            (of(&[("a", &["10.0.0.1"]), ("b", &["10.0.0.2", "10.0.0.3"]), ("c", &[])]), "\"c\")) should not"),
        ] {
            let error = same(&wrong, &wanted).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
