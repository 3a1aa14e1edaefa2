//! Forms of values as bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes values as bytes, and reads them.
pub trait PackedForm<T> {
    /// Returns the bytes; `None` if the value has none in this form. It is kept as it is then.
    fn write(value: &T) -> Option<Vec<u8>>;

    /// Returns what [`write`](Self::write) was given; `None` for bytes that it does not return.
    fn read(bytes: &[u8]) -> Option<T>;
}

/// JSON, for what comes from the API server.
#[derive(Debug, Clone, Copy)]
pub struct JsonForm;

impl<T: Serialize + DeserializeOwned> PackedForm<T> for JsonForm {
    fn write(value: &T) -> Option<Vec<u8>> {
        serde_json::to_vec(value).ok()
    }

    fn read(bytes: &[u8]) -> Option<T> {
        serde_json::from_slice(bytes).ok()
    }
}
