//! What is printed, and how.

use std::io::{self, Write as _};

use clap::ValueEnum;
pub use gimbal_backend_summary::age;
use gimbal_runtime::Exit;
use serde_json::Value;

use crate::table::columns;

/// The form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// Columns for people.
    Table,
    /// One JSON object a line.
    Json,
}

/// Prints text. A reader that has enough closes the pipe, which is no failure.
///
/// # Errors
/// Standard output cannot be written to.
pub fn print(text: &str) -> Result<(), Exit> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result.map_err(|error| Exit::Failure(format!("cannot write to standard output: {error}"))),
    }
}

/// Prints a list that comes page by page: JSON at once, a table when its last page is there. `page` is asked with the token of each
/// page, the empty one first, and returns the token of the next one, empty after the last.
///
/// # Errors
/// As `page`, and as [`print()`].
pub async fn print_pages<T>(
    output: OutputForm,
    heads: Vec<String>,
    row: impl Fn(&T) -> Vec<String>,
    json: impl Fn(&T) -> Value,
    mut page: impl AsyncFnMut(String) -> Result<(Vec<T>, String), Exit>,
) -> Result<(), Exit> {
    let (mut rows, mut token) = (vec![heads], String::new());
    loop {
        let (items, next) = page(token).await?;
        match output {
            OutputForm::Table => rows.extend(items.iter().map(&row)),
            OutputForm::Json => items.iter().try_for_each(|item| print(&format!("{}\n", json(item))))?,
        }
        if next.is_empty() {
            break;
        }
        token = next;
    }
    if output == OutputForm::Table { print(&columns(&rows)) } else { Ok(()) }
}

/// Says something about the answer on standard error, where it is in no script's way.
pub fn remark(text: &str) {
    // Without a reader of standard error there is no one to tell.
    io::stderr().lock().write_all(columns(&[vec![text.to_owned()]]).as_bytes()).ok();
}
