//! The kept inputs of a target, packed into one file: for each input its length as four bytes (big-endian), then its
//! bytes.
//!
//! libFuzzer reads and writes folders with a file per input, so [`unpack`] and [`pack`] convert between the two.

use std::collections::BTreeSet;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// Returns the file with the inputs of a target.
#[must_use]
pub fn file(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.corpus"))
}

/// Returns the inputs in a packed file.
///
/// # Errors
/// The file cannot be read, or ends within an input.
pub fn read(file: &Path) -> Result<Vec<Vec<u8>>> {
    let packed = fs::read(file)?;
    let mut rest = packed.as_slice();
    let cut = || Error::new(ErrorKind::UnexpectedEof, format!("{} ends within an input", file.display()));
    let inputs = iter::from_fn(|| (!rest.is_empty()).then(|| next(&mut rest).ok_or_else(cut)));
    inputs.collect()
}

fn next(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let (length, bytes) = rest.split_first_chunk::<4>()?;
    let (input, after) = bytes.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    *rest = after;
    Some(input.to_vec())
}

/// Writes each input of a packed file to a file of its own in `folder`. Does nothing if the packed file does not exist.
///
/// # Errors
/// As [`read`], or a file that cannot be written.
pub fn unpack(file: &Path, folder: &Path) -> Result<()> {
    if !file.exists() {
        return Ok(());
    }
    for (number, input) in read(file)?.iter().enumerate() {
        fs::write(folder.join(format!("kept-{number}")), input)?;
    }
    Ok(())
}

/// Packs every file in `folder`.
///
/// # Errors
/// A file that cannot be read or written, or that is larger than 4 GiB.
pub fn pack(folder: &Path, file: &Path) -> Result<()> {
    write(fs::read_dir(folder)?.map(|entry| fs::read(entry?.path())).collect::<Result<_>>()?, file)
}

/// Adds one input to a packed file.
///
/// # Errors
/// As [`read`] and [`pack`].
pub fn add(file: &Path, input: &Path) -> Result<()> {
    let mut inputs: BTreeSet<Vec<u8>> = read(file)?.into_iter().collect();
    inputs.insert(fs::read(input)?);
    write(inputs, file)
}

/// A set, so that the same inputs give the same file.
fn write(inputs: BTreeSet<Vec<u8>>, file: &Path) -> Result<()> {
    let mut packed = Vec::new();
    for input in inputs {
        let length = u32::try_from(input.len()).map_err(|_| Error::new(ErrorKind::FileTooLarge, "input too large"))?;
        packed.extend(length.to_be_bytes());
        packed.extend(input);
    }
    fs::write(file, packed)
}
