//! Names that every log line already has: an event field with one of them occurs twice in its JSON line, and readers
//! drop the line, or one of the two.

use std::path::{Path, PathBuf};

const TAKEN: [&str; 4] = ["timestamp", "level", "message", "target"];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the names of the fields of each event, as written: `name`, `name = value`, `%name`, `?name`.
fn fields(text: &str) -> impl Iterator<Item = String> {
    let levels = ["error!(", "warn!(", "info!(", "debug!(", "trace!("];
    let events = text.split("tracing::").skip(1).filter_map(move |event| {
        let (_, event) =
            levels.iter().find_map(|level| event.split_once(level).filter(|(before, _)| before.is_empty()))?;
        // The message comes last, and ends the fields.
        event.split('"').next()
    });
    events.flat_map(|fields| {
        let name =
            |field: &str| field.trim().trim_start_matches(['%', '?']).split([' ', '=']).next().map(str::to_owned);
        fields.split(',').filter_map(name).collect::<Vec<_>>()
    })
}

#[test]
fn no_field_has_a_name_that_is_taken() {
    let sample = ["tracing", "::info!(%target, kind = 1, \"x\")"].concat();
    assert_eq!(fields(&sample).collect::<Vec<_>>(), ["target", "kind", ""]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut files = Vec::new();
    for dir in ["crates", "services"] {
        sources(&root.join(dir), &mut files);
    }
    let mut events = 0;
    for file in files {
        for field in fields(&std::fs::read_to_string(&file).unwrap()) {
            events += 1;
            assert!(!TAKEN.contains(&&*field), "{}: a field is called {field}", file.display());
        }
    }
    assert!(events > 100, "only {events} fields were looked at");
}
