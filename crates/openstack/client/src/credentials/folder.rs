//! Credentials from a mounted Secret, one file for each key.

use std::io::ErrorKind;
use std::path::Path;

use super::CredentialsError;
use super::given::{CredentialsOrigin, Given, SETTINGS};

pub(super) fn read(dir: &Path) -> Result<Given, CredentialsError> {
    if let Err(error) = std::fs::read_dir(dir) {
        let place = format!("credentials folder {}", dir.display());
        return Err(CredentialsError { place, problem: format!("cannot be read: {error}") });
    }
    let mut given = Given::new(CredentialsOrigin::Folder(dir.to_owned()));
    for setting in SETTINGS {
        for name in setting.folder {
            let file = dir.join(name);
            let place = file.display().to_string();
            match std::fs::read_to_string(&file) {
                Ok(text) => given.put(setting.key, text.trim_end_matches(['\r', '\n']).to_owned(), place),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(CredentialsError { place, problem: format!("cannot be read: {error}") }),
            }
        }
    }
    Ok(given)
}
