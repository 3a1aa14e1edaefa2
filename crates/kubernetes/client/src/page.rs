//! Parses pages of a list. Pure.

use gimbal_kubernetes_objects::{List, ListMeta, Object};
use serde_json::value::RawValue;

use crate::ApiError;

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page<T> {
    /// The objects that could be decoded.
    pub items: Vec<T>,
    /// Number of objects in the page, including those that could not be decoded.
    pub objects: usize,
    /// The version of the whole list.
    pub version: String,
    /// The token for the next page, if there is one.
    pub next: Option<String>,
    /// The error of the first object that could not be decoded. The list is not complete then.
    pub unreadable: Option<ApiError>,
}

impl<T: Object> Page<T> {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice::<List<T>>(bytes) {
            Ok(list) if !list.metadata.resource_version.is_empty() => {
                Ok(Self::of(list.metadata, list.items.len(), list.items, None))
            }
            _ => Self::read_closely(bytes),
        }
    }

    /// Parses object by object, to keep the readable ones and to name the first that is not.
    fn read_closely(bytes: &[u8]) -> Result<Self, ApiError> {
        let what = || format!("a list of {}", T::KIND.plural);
        let list: List<&RawValue> =
            serde_json::from_slice(bytes).map_err(|error| ApiError::undecodable(&what(), &error))?;
        if list.metadata.resource_version.is_empty() {
            return Err(ApiError::Undecodable { message: format!("{} has no resourceVersion", what()) });
        }
        let objects = list.items.len();
        let mut items = Vec::with_capacity(objects);
        let mut unreadable = None;
        for item in list.items {
            match serde_json::from_str(item.get()) {
                Ok(item) => items.push(item),
                Err(error) if unreadable.is_none() => unreadable = Some(unreadable_object::<T>(item.get(), &error)),
                Err(_) => {}
            }
        }
        Ok(Self::of(list.metadata, objects, items, unreadable))
    }

    fn of(list: ListMeta, objects: usize, items: Vec<T>, unreadable: Option<ApiError>) -> Self {
        let next = Some(list.continue_token).filter(|token| !token.is_empty());
        Self { items, objects, version: list.resource_version, next, unreadable }
    }
}

/// Returns an error that names the object, as far as its name can be read.
pub(crate) fn unreadable_object<T: Object>(json: &str, error: &serde_json::Error) -> ApiError {
    let object = serde_json::from_str::<serde_json::Value>(json).unwrap_or_default();
    let part = |key: &str| object["metadata"][key].as_str().unwrap_or("?").to_owned();
    ApiError::undecodable(&format!("{} {}/{}", T::KIND.kind, part("namespace"), part("name")), error)
}

#[cfg(test)]
mod tests {
    use gimbal_kubernetes_objects::Service;

    use super::*;

    #[test]
    fn a_page() {
        let page = Page::<Service>::read(
            br#"{"kind":"ServiceList","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"metadata":{"name":"a"}}]}"#,
        )
        .unwrap();
        assert_eq!((page.version.as_str(), page.next.as_deref(), page.items.len()), ("7", Some("x"), 1));
        assert!(page.unreadable.is_none());
    }

    #[test]
    fn one_bad_object_leaves_the_others() {
        let page = Page::<Service>::read(
            br#"{"metadata":{"resourceVersion":"7"},"items":[
                {"metadata":{"name":"a","namespace":"n"},"spec":{"ports":"many"}},{"metadata":{"name":"b"}}]}"#,
        )
        .unwrap();
        assert_eq!(page.items.iter().map(|item| &*item.metadata.name).collect::<Vec<_>>(), ["b"]);
        assert_eq!(page.objects, 2);
        let error = page.unreadable.unwrap().to_string();
        assert!(error.starts_with("cannot read the answer: Service n/a: invalid type"), "{error}");
    }

    #[test]
    fn not_a_list() {
        for bad in ["", "{", "[]", "<html>", r#"{"items":[]}"#, r#"{"metadata":{"resourceVersion":"1"},"items":[{]}"#] {
            assert!(matches!(Page::<Service>::read(bad.as_bytes()), Err(ApiError::Undecodable { .. })), "{bad}");
        }
    }
}
