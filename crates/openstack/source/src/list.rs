//! A list as it came: rows that could be read, and those that could not.

use jiff::Timestamp;

/// A complete list of one kind. A list that failed, was cut, or repeated itself is no list: it is reported as failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T> {
    /// The rows that could be read, in any order.
    pub rows: Vec<T>,
    /// Those that could not. They are there, so they are no proof of an absence.
    pub unreadable: Vec<Unreadable>,
    /// The server's clock (`Date`) when it began to answer, to a second; the only one that its `updated_at` can be compared
    /// with.
    pub server_time: Option<Timestamp>,
}

/// A row that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Which one, if it says so.
    pub id: Option<String>,
    /// The project that owns it, if it says so.
    pub project: Option<String>,
    /// What is wrong with it.
    pub problem: String,
}

impl<T> From<Vec<T>> for List<T> {
    fn from(rows: Vec<T>) -> Self {
        Self { rows, unreadable: Vec::new(), server_time: None }
    }
}
