//! The file of the accepted counts.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// The cost of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions executed.
    pub instructions: u64,
    /// Allocations, if they are counted.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub heap: Option<Heap>,
}

/// The allocations of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heap {
    /// Number of blocks, including those that were resized.
    pub allocations: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Versions that determine how many instructions the same source takes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct With {
    /// The output of `rustc --version`.
    pub rustc: String,
    /// The compilation target.
    pub target: String,
    /// The output of `valgrind --version`; it determines which of several implementations of a library function runs.
    pub valgrind: String,
    /// The C library, whose allocator and `memcpy` count too.
    pub libc: String,
}

/// Counts by case, and the versions they were counted with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    pub with: With,
    pub counts: BTreeMap<String, Counts>,
}

impl fmt::Display for With {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}, {}", self.rustc, self.target, self.valgrind, self.libc)
    }
}

impl Kept {
    /// Reads the file. Without a file there are no accepted counts.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        match std::fs::read(file) {
            Ok(text) => {
                serde_json::from_slice(&text).with_context(|| format!("{} is not as we wrote it", file.display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    pub fn write(&self, file: &Path) -> anyhow::Result<()> {
        std::fs::write(file, self.text()?).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Returns one line per case, so that a diff shows which cases changed.
    fn text(&self) -> anyhow::Result<String> {
        let lines = self.counts.iter().map(|(case, counts)| {
            let (case, counts) = (serde_json::to_string(case)?, serde_json::to_string(counts)?);
            Ok(format!("    {case}: {counts}"))
        });
        let lines = lines.collect::<anyhow::Result<Vec<_>>>()?.join(",\n");
        Ok(format!("{{\n  \"with\": {},\n  \"counts\": {{\n{lines}\n  }}\n}}\n", serde_json::to_string(&self.with)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("counts.json");
        assert_eq!(Kept::read(&file).unwrap(), Kept::default());
        let counts = Counts { instructions: 1, heap: Some(Heap { allocations: 2, bytes: 3 }) };
        let with = With { rustc: "rustc 1".into(), ..With::default() };
        let kept =
            Kept { with, counts: [("a".to_owned(), counts), ("b".to_owned(), Counts { heap: None, ..counts })].into() };
        kept.write(&file).unwrap();
        assert_eq!(Kept::read(&file).unwrap(), kept);
        std::fs::write(&file, "{").unwrap();
        assert!(Kept::read(&file).is_err());
    }
}
