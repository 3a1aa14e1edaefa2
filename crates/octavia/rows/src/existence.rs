//! The outcome of looking up one object by ID.

/// What the GET of one object says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existence {
    /// 200: the object exists.
    Found,
    /// 404: the object was deleted. neutron-lbaas also answers 404 for objects that the token may not see.
    Gone,
    /// 403: the token may not see the object, which proves neither that it exists nor that it was deleted.
    Forbidden,
}
