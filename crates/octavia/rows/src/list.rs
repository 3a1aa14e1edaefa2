//! A complete list: the rows that could be decoded, and those that could not.

use jiff::Timestamp;

/// A complete list of one kind of object. A list that failed or was truncated is the fetching client's error, never a
/// `List`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteList<T> {
    /// The decoded rows, in any order.
    pub rows: Vec<T>,
    /// The rows that could not be decoded. Their objects exist, so they must not be taken for deleted.
    pub unreadable: Vec<UnreadableRow>,
    /// The server's clock (`Date`, in whole seconds) when it began to answer. Only this clock can be compared with
    /// `updated_at`.
    pub server_time: Option<Timestamp>,
}

/// A row that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRow {
    /// The row's ID, if that could be decoded.
    pub id: Option<String>,
    /// The project that owns the object, if that could be decoded.
    pub project: Option<String>,
    /// The decoding error, human-readable.
    pub problem: String,
}

impl<T> From<Vec<T>> for CompleteList<T> {
    fn from(rows: Vec<T>) -> Self {
        Self { rows, unreadable: Vec::new(), server_time: None }
    }
}
