//! Whole objects, as an API server writes them, and what becomes of them.

use crate::common::{listed, service_from, slice_from};
use gimbal_kubernetes_source::Flavour;

#[test]
fn a_rich_service() {
    let mut index = listed(Flavour::Slices);
    let objects: serde_json::Value = serde_json::from_str(include_str!("golden/rich.json")).unwrap();
    for object in objects.as_array().unwrap() {
        match object["kind"].as_str().unwrap() {
            "Service" => index.apply_service(service_from(object.clone())),
            _ => index.apply_slice(slice_from(object.clone())),
        }
    }
    insta::assert_debug_snapshot!(index.drain());
    insta::assert_debug_snapshot!("rich_skipped", index.skipped());
}
