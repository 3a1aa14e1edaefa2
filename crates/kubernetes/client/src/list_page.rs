//! Parses pages of a list. Pure.

use gimbal_error_text::first_line;
use gimbal_kubernetes_objects::{List, ListMeta, Object};
use serde_json::value::RawValue;

use crate::ApiError;
use crate::shallow::shallow;

/// One page of a list.
#[derive(Debug)]
pub(crate) struct ListPage<T> {
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

impl<T: Object> ListPage<T> {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ApiError> {
        match serde_json::from_slice::<List<T>>(bytes) {
            Ok(list) if check::<T, _>(&list).is_ok() && list.items.iter().all(is_named) => {
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
        check::<T, _>(&list)?;
        let objects = list.items.len();
        let mut items = Vec::with_capacity(objects);
        let mut unreadable = None;
        for item in list.items {
            match read_object(item.get()) {
                Ok(item) => items.push(item),
                Err(error) => unreadable = unreadable.or(Some(error)),
            }
        }
        Ok(Self::of(list.metadata, objects, items, unreadable))
    }

    fn of(list: ListMeta, objects: usize, items: Vec<T>, unreadable: Option<ApiError>) -> Self {
        let next = Some(list.continue_token).filter(|token| !token.is_empty());
        Self { items, objects, version: list.resource_version, next, unreadable }
    }
}

/// Whether a list is one of `T`, with a version. A list of anything else says nothing about objects of this kind.
fn check<T: Object, I>(list: &List<I>) -> Result<(), ApiError> {
    let message = if list.kind.strip_suffix("List") != Some(T::KIND.kind) || list.api_version != T::KIND.api_version {
        let (kind, version) = (first_line(&list.kind), first_line(&list.api_version));
        format!("{version:?} {kind:?} is no list of {}", T::KIND.plural)
    } else if list.metadata.resource_version.is_empty() {
        format!("a list of {} has no resourceVersion", T::KIND.plural)
    } else {
        return Ok(());
    };
    Err(ApiError::Undecodable { message })
}

/// Whether an object has a name. Without one it cannot be distinguished from others.
pub(crate) fn is_named(object: &impl Object) -> bool {
    !object.meta().name.is_empty()
}

/// Reads an object. The error names it, as far as its name can be read.
pub(crate) fn read_object<T: Object>(json: &str) -> Result<T, ApiError> {
    let kept = shallow(json);
    let json = kept.as_deref().unwrap_or(json);
    let error = match serde_json::from_str::<T>(json) {
        Ok(object) if is_named(&object) => return Ok(object),
        Ok(_) => "it has no name".to_owned(),
        Err(error) => error.to_string(),
    };
    let object = serde_json::from_str::<serde_json::Value>(json).unwrap_or_default();
    let part = |key: &str| object["metadata"][key].as_str().unwrap_or("?").to_owned();
    let message = format!("{} {}/{}: {error}", T::KIND.kind, part("namespace"), part("name"));
    Err(ApiError::Undecodable { message })
}

#[cfg(test)]
mod tests {
    use gimbal_kubernetes_objects::Service;

    use super::*;

    #[test]
    fn a_page() {
        let page = ListPage::<Service>::read(
            br#"{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"metadata":{"name":"a"}}]}"#,
        )
        .unwrap();
        assert_eq!((page.version.as_str(), page.next.as_deref(), page.items.len()), ("7", Some("x"), 1));
        assert!(page.unreadable.is_none());
    }

    #[test]
    fn one_bad_object_leaves_the_others() {
        let page = ListPage::<Service>::read(
            br#"{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
                {"metadata":{"name":"a","namespace":"n"},"spec":{"ports":"many"}},{"metadata":{"name":"b"}}]}"#,
        )
        .unwrap();
        assert_eq!(page.items.iter().map(|item| &*item.metadata.name).collect::<Vec<_>>(), ["b"]);
        assert_eq!(page.objects, 2);
        let error = page.unreadable.unwrap().to_string();
        assert!(error.starts_with("cannot read the answer: Service n/a: invalid type"), "{error}");
    }

    /// It could be anyone's object, also one that is known, so the list is not complete.
    #[test]
    fn an_object_without_a_name_is_unreadable() {
        for nameless in [r#"{"spec":{}}"#, r#"{"metadata":{"namespace":"n"}}"#, r#"{"metadata":{"name":""}}"#, "{}"] {
            let page = ListPage::<Service>::read(
                format!(
                    r#"{{"kind":"ServiceList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},
                        "items":[{{"metadata":{{"name":"a"}}}},{nameless}]}}"#
                )
                .as_bytes(),
            )
            .unwrap();
            assert_eq!(page.items.iter().map(|item| &*item.metadata.name).collect::<Vec<_>>(), ["a"], "{nameless}");
            let error = page.unreadable.unwrap().to_string();
            assert!(error.ends_with(": it has no name"), "{error}");
        }
    }

    #[test]
    fn an_object_of_many_levels_is_read_and_named() {
        let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
        let page = |spec: &str| {
            ListPage::<Service>::read(
                format!(
                    r#"{{"kind":"ServiceList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},
                        "items":[{{"metadata":{{"namespace":"n","name":"a"}},"spec":{spec},"status":{{"x":{deep}}}}}]}}"#
                )
                .as_bytes(),
            )
            .unwrap()
        };
        let good = page("{}");
        assert_eq!((good.items.len(), good.unreadable.is_none()), (1, true));
        let error = page(r#"{"ports":7}"#).unreadable.unwrap().to_string();
        assert!(error.contains("Service n/a: invalid type"), "{error}");
    }

    /// An empty list of another kind does not prove that objects of this kind are absent.
    #[test]
    fn a_list_of_another_kind() {
        for (kind, version) in [
            ("PodList", "v1"),
            ("ServiceList", "serving.knative.dev/v1"),
            ("Service", "v1"),
            ("List", "v1"),
            ("Status", "v1"),
            ("", ""),
        ] {
            let list = format!(
                r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"resourceVersion":"5"}},"items":[]}}"#
            );
            let error = ListPage::<Service>::read(list.as_bytes()).unwrap_err().to_string();
            assert_eq!(error, format!("cannot read the answer: {version:?} {kind:?} is no list of services"));
        }
        let list = br#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;
        assert!(ListPage::<Service>::read(list).is_err());
    }

    #[test]
    fn not_a_list() {
        for bad in [
            "",
            "{",
            "[]",
            "<html>",
            r#"{"kind":"ServiceList","apiVersion":"v1","items":[]}"#,
            r#"{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{]}"#,
        ] {
            assert!(matches!(ListPage::<Service>::read(bad.as_bytes()), Err(ApiError::Undecodable { .. })), "{bad}");
        }
    }
}
