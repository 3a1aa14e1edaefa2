//! Where an address is found, for explanations.

use std::sync::Arc;

use crate::Conditions;

/// An object that has an endpoint with an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressObject {
    /// Kind of the object, such as `EndpointSlice`.
    pub kind: &'static str,
    /// Name of the object.
    pub name: Arc<str>,
    /// Conditions of the endpoint: the best, if several sets of ports have one.
    pub conditions: Conditions,
}

/// What a source knows of an address of one of its Services.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressInSource {
    /// The objects of the source that have it.
    pub objects: Vec<AddressObject>,
    /// Why it is offered as it is, or why it is not, as sentences in order.
    pub reasons: Vec<String>,
}
