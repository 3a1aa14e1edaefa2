//! Contexts: which writers there are and with which certificates they are asked, as in a kubeconfig file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use gimbal_model::BackendName;
use gimbal_runtime::Exit;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::output::{OutputForm, print};
use crate::table::columns;

/// What is done with contexts.
#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// Lists the contexts, the one in use with a star
    List,
    /// Uses a context from now on
    Use {
        /// Its name
        name: String,
    },
    /// Makes a context of the flags that are given, or changes one: --server, --openstack-server, --discoverer, --tls-cert,
    /// --tls-key, --tls-ca
    Set {
        /// Its name
        name: String,
        /// URL of openstack-writer, for `lb`
        #[arg(long, value_name = "URL")]
        openstack_server: Option<String>,
        /// The discoverer of a backend, for `why`: its URL, asked with the certificate of this context, or the name of a context
        /// that has both (may be repeated)
        #[arg(long = "discoverer", value_name = "BACKEND=URL|CONTEXT", value_parser = discoverer)]
        discoverers: Vec<(String, String)>,
    },
    /// Removes a context; files that it names stay
    Remove {
        /// Its name
        name: String,
    },
}

/// One context. Files are looked for beside the file of contexts, if their paths are relative.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Context {
    pub name: String,
    /// URL of the writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// URL of openstack-writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openstack_server: Option<String>,
    /// The discoverer of a backend: its URL, or the name of a context that has it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub discoverers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_ca: Option<PathBuf>,
}

/// The file of contexts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contexts {
    /// The one that is used where no other one is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    contexts: Vec<Context>,
}

/// Where contexts are kept: a file that is given, or `gimbal/gimbalctl.yaml` in the user's folder of configuration.
pub fn file(given: Option<&Path>) -> Option<PathBuf> {
    let folder = || {
        let own = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
        own.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))
    };
    given.map(Path::to_owned).or_else(|| Some(folder()?.join("gimbal/gimbalctl.yaml")))
}

/// Returns the context of a name, or the one in use; `None` if no name is given and none is in use.
///
/// # Errors
/// There is no such context, or the file cannot be read.
pub fn find(file: Option<&Path>, name: Option<&str>) -> Result<Option<Context>, Exit> {
    let contexts = file.map(read).transpose()?.unwrap_or_default();
    let Some(wanted) = name.or(contexts.current.as_deref()) else { return Ok(None) };
    let beside = file.and_then(Path::parent).unwrap_or_else(|| Path::new(""));
    let found = contexts.contexts.iter().find(|one| one.name == wanted).cloned();
    let mut context = found.ok_or_else(|| unknown(wanted))?;
    for path in [&mut context.tls_cert, &mut context.tls_key, &mut context.tls_ca].into_iter().flatten() {
        *path = beside.join(&*path);
    }
    Ok(Some(context))
}

/// Runs a command; `given` is what flags say.
///
/// # Errors
/// There is no such context, or the file cannot be read or written.
pub fn run(command: &ContextCommand, file: Option<&Path>, given: Context, output: OutputForm) -> Result<(), Exit> {
    let no_file = || Exit::Usage("there is no folder for the file of contexts: give --config".into());
    let file = file.ok_or_else(no_file)?;
    let mut contexts = read(file)?;
    match command {
        ContextCommand::List => return print(&list(&contexts, output)),
        ContextCommand::Use { name } => {
            if !contexts.contexts.iter().any(|one| one.name == *name) {
                return Err(unknown(name));
            }
            contexts.current = Some(name.clone());
        }
        ContextCommand::Set { name, openstack_server, discoverers } => {
            if name.is_empty() || name.chars().any(|c| c.is_control() || c.is_whitespace()) {
                return Err(Exit::Usage(format!("{name:?} is no name of a context: it is empty or has blanks")));
            }
            let given = Context {
                name: name.clone(),
                openstack_server: openstack_server.clone(),
                discoverers: discoverers.iter().cloned().collect(),
                ..absolute(given)?
            };
            match contexts.contexts.iter_mut().find(|one| one.name == *name) {
                Some(one) => one.change(given),
                None => contexts.contexts.push(given),
            }
            // The first one needs no other command before it is of use.
            contexts.current.get_or_insert_with(|| name.clone());
        }
        ContextCommand::Remove { name } => {
            let before = contexts.contexts.len();
            contexts.contexts.retain(|one| one.name != *name);
            if contexts.contexts.len() == before {
                return Err(unknown(name));
            }
            contexts.current.take_if(|current| current == name);
        }
    }
    write(file, &contexts)?;
    print(&list(&contexts, output))
}

impl Context {
    /// Takes over what is given.
    fn change(&mut self, given: Self) {
        let Self { name: _, server, openstack_server, discoverers, tls_cert, tls_key, tls_ca } = given;
        self.server = server.or_else(|| self.server.take());
        self.openstack_server = openstack_server.or_else(|| self.openstack_server.take());
        self.discoverers.extend(discoverers);
        self.tls_cert = tls_cert.or_else(|| self.tls_cert.take());
        self.tls_key = tls_key.or_else(|| self.tls_key.take());
        self.tls_ca = tls_ca.or_else(|| self.tls_ca.take());
    }
}

/// Reads the discoverer of a backend.
fn discoverer(text: &str) -> Result<(String, String), String> {
    let (backend, place) =
        text.split_once('=').ok_or_else(|| "write it as BACKEND=URL or BACKEND=CONTEXT".to_owned())?;
    if place.is_empty() {
        return Err("there is neither a URL nor the name of a context after \"=\"".to_owned());
    }
    let backend = BackendName::parse(backend).map_err(|error| error.to_string())?;
    Ok((backend.to_string(), place.to_owned()))
}

/// What a flag names is looked for in the folder where the command runs, and stays the same file.
fn absolute(mut given: Context) -> Result<Context, Exit> {
    for path in [&mut given.tls_cert, &mut given.tls_key, &mut given.tls_ca].into_iter().flatten() {
        let whole = std::path::absolute(&*path);
        *path = whole.map_err(|error| Exit::Failure(format!("cannot find {}: {error}", path.display())))?;
    }
    Ok(given)
}

fn unknown(name: &str) -> Exit {
    Exit::Usage(format!("there is no context {name:?}: gimbalctl context list has their names"))
}

fn read(file: &Path) -> Result<Contexts, Exit> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Contexts::default()),
        Err(error) => return Err(Exit::Failure(format!("cannot read {}: {error}", file.display()))),
    };
    serde_saphyr::from_str(&text).map_err(|error| Exit::Usage(format!("{}: {error}", file.display())))
}

fn write(file: &Path, contexts: &Contexts) -> Result<(), Exit> {
    let failed = |error: &dyn std::fmt::Display| Exit::Failure(format!("cannot write {}: {error}", file.display()));
    let text = serde_saphyr::to_string(contexts).map_err(|error| failed(&error))?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    crate::certs::replace_files(folder, &[(&name, &text)]).map_err(|error| failed(&error))
}

fn list(contexts: &Contexts, output: OutputForm) -> String {
    let is_current = |one: &Context| contexts.current.as_ref() == Some(&one.name);
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    if output == OutputForm::Json {
        let line = |one: &Context| {
            let Context { name, server, openstack_server, discoverers, tls_cert, .. } = one;
            format!(
                "{}\n",
                json!({
                    "context": name, "current": is_current(one), "server": server, "openstackServer": openstack_server,
                    "discoverers": discoverers,
                    "tlsCert": tls_cert.as_ref().map(|path| path.display().to_string()),
                })
            )
        };
        return contexts.contexts.iter().map(line).collect();
    }
    let heads = ["", "CONTEXT", "SERVER", "OPENSTACK", "CERTIFICATE", "DISCOVERERS"].map(str::to_owned).to_vec();
    let row = |one: &Context| {
        let star = if is_current(one) { "*" } else { "" };
        let url = |url: &Option<String>| url.clone().unwrap_or_default();
        let discoverers = one.discoverers.keys().cloned().collect::<Vec<_>>().join(",");
        let servers = [url(&one.server), url(&one.openstack_server)];
        [star.to_owned(), one.name.clone()]
            .into_iter()
            .chain(servers)
            .chain([path(&one.tls_cert), discoverers])
            .collect()
    };
    columns(&std::iter::once(heads).chain(contexts.contexts.iter().map(row)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(file: &Path, name: &str, server: &str) {
        let given = Context { server: Some(server.into()), tls_cert: Some("/a/tls.crt".into()), ..Context::default() };
        let command = ContextCommand::Set { name: name.into(), openstack_server: None, discoverers: Vec::new() };
        run(&command, Some(file), given, OutputForm::Json).unwrap();
    }

    #[test]
    fn the_first_context_is_used_until_another_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made/contexts.yaml");
        assert_eq!(find(Some(&file), None).unwrap(), None);
        set(&file, "prod", "https://a:1");
        set(&file, "lab", "https://b:1");
        let server = |name: Option<&str>| find(Some(&file), name).unwrap().unwrap().server.unwrap();
        assert_eq!((server(None), server(Some("lab"))), ("https://a:1".to_owned(), "https://b:1".to_owned()));
        run(&ContextCommand::Use { name: "lab".into() }, Some(&file), Context::default(), OutputForm::Json).unwrap();
        assert_eq!(server(None), "https://b:1");
        run(&ContextCommand::Remove { name: "lab".into() }, Some(&file), Context::default(), OutputForm::Json).unwrap();
        assert_eq!(find(Some(&file), None).unwrap(), None);
        assert_eq!(find(Some(&file), Some("lab")).unwrap_err().code(), 2);
    }

    #[test]
    fn what_is_not_given_stays_and_files_are_beside() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("contexts.yaml");
        std::fs::write(&file, "current: a\ncontexts:\n- name: a\n  server: https://a:1\n  tlsCert: tls.crt\n").unwrap();
        let command = ContextCommand::Set {
            name: "a".into(),
            openstack_server: Some("https://o:1".into()),
            discoverers: vec![discoverer("node02=https://d:1").unwrap()],
        };
        run(&command, Some(&file), Context::default(), OutputForm::Json).unwrap();
        let found = find(Some(&file), None).unwrap().unwrap();
        assert_eq!(
            (found.server.as_deref(), found.openstack_server.as_deref()),
            (Some("https://a:1"), Some("https://o:1"))
        );
        assert_eq!(found.tls_cert, Some(folder.path().join("tls.crt")));
        let more = ContextCommand::Set {
            name: "a".into(),
            openstack_server: None,
            discoverers: vec![discoverer("node03=node03").unwrap(), discoverer("node02=https://d:2").unwrap()],
        };
        run(&more, Some(&file), Context::default(), OutputForm::Json).unwrap();
        let found = find(Some(&file), None).unwrap().unwrap().discoverers;
        assert_eq!(
            found,
            BTreeMap::from([("node02", "https://d:2"), ("node03", "node03")].map(|(a, b)| (a.into(), b.into())))
        );
        for wrong in ["node02", "node02=", "=https://d:1", "Node_02=x"] {
            assert!(discoverer(wrong).is_err(), "{wrong}");
        }
        std::fs::write(&file, "contexts:\n- name: a\n  sever: x\n").unwrap();
        assert_eq!(find(Some(&file), None).unwrap_err().code(), 2);
    }
}
