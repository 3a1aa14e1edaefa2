//! `clouds.yaml` and `secure.yaml`, found and merged as OpenStack's own tools do.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::CredentialsError;
use super::given::{CredentialsOrigin, Given, SETTINGS};

type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(super) fn read(name: &str, variable: Variable<'_>) -> Result<Given, CredentialsError> {
    let Some(file) = find("clouds", "OS_CLIENT_CONFIG_FILE", variable) else {
        let problem = "there is no clouds.yaml in the working folder, ~/.config/openstack or /etc/openstack; \
                       name one in OS_CLIENT_CONFIG_FILE";
        return Err(CredentialsError { place: format!("cloud {name:?}"), problem: problem.to_owned() });
    };
    let Some(cloud) = entry(&file, name)? else {
        let problem = format!("has no cloud {name:?}");
        return Err(CredentialsError { place: file.display().to_string(), problem });
    };
    let secure = match find("secure", "OS_CLIENT_SECURE_FILE", variable) {
        Some(path) => entry(&path, name)?.map(|entry| (path, entry)),
        None => None,
    };
    let mut given = Given::new(CredentialsOrigin::Cloud { file: file.clone(), name: name.to_owned() });
    for (path, entry) in std::iter::once((file, cloud)).chain(secure) {
        read_settings(&mut given, &path, name, &entry)?;
    }
    Ok(given)
}

/// Returns the file that the variable names, whether or not it exists, else the first existing file.
fn find(stem: &str, named_by: &str, variable: Variable<'_>) -> Option<PathBuf> {
    if let Some(path) = variable(named_by).filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    let user = match variable("XDG_CONFIG_HOME").filter(|path| !path.is_empty()) {
        Some(config) => Some(PathBuf::from(config)),
        None => variable("HOME").map(|home| Path::new(&home).join(".config")),
    };
    let folders = [Some(PathBuf::new()), user.map(|config| config.join("openstack")), Some("/etc/openstack".into())];
    let files = folders
        .into_iter()
        .flatten()
        .flat_map(|folder| ["yaml", "yml", "json"].map(|extension| folder.join(stem).with_extension(extension)));
    files.into_iter().find(|file| file.is_file())
}

fn entry(file: &Path, name: &str) -> Result<Option<Map<String, Value>>, CredentialsError> {
    let wrong = |problem: String| CredentialsError { place: file.display().to_string(), problem };
    let text = std::fs::read_to_string(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    // The parser's message would quote the lines around the mistake, which may contain a password.
    let unreadable = |error: serde_saphyr::Error| match error.location() {
        Some(at) => wrong(format!("is not YAML that can be read, line {} column {}", at.line(), at.column())),
        None => wrong("is not YAML that can be read".to_owned()),
    };
    let mut file: Value = serde_saphyr::from_str(&text).map_err(unreadable)?;
    match file.get_mut("clouds").map(|clouds| clouds.get_mut(name).map(Value::take)) {
        Some(Some(Value::Object(entry))) => Ok(Some(entry)),
        Some(Some(_)) => Err(wrong(format!("clouds.{name} is not a map"))),
        Some(None) => Ok(None),
        None => Err(wrong("has no key clouds".to_owned())),
    }
}

fn read_settings(
    given: &mut Given,
    file: &Path,
    name: &str,
    entry: &Map<String, Value>,
) -> Result<(), CredentialsError> {
    for setting in SETTINGS {
        for path in setting.cloud {
            let Some(value) = look_up(entry, path) else { continue };
            let place = format!("{}: clouds.{name}.{path}", file.display());
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Bool(yes) => yes.to_string(),
                Value::Null => continue,
                // Numbers like 0123 or 1e3 would not keep the form in which they were written.
                Value::Number(_) => {
                    return Err(CredentialsError { place, problem: "is a number; put it in quotes".to_owned() });
                }
                Value::Array(_) | Value::Object(_) => {
                    return Err(CredentialsError { place, problem: "must be a single value".to_owned() });
                }
            };
            given.put(setting.key, text, place);
            break;
        }
    }
    Ok(())
}

/// Returns the value at `path`. A key under `auth` is also accepted beside it; the one under `auth` takes precedence.
fn look_up<'a>(entry: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    match path.strip_prefix("auth.") {
        Some(key) => entry.get("auth").and_then(|auth| auth.get(key)).or_else(|| entry.get(key)),
        None => entry.get(path),
    }
}
