//! The file's format, and its conversion to a [`Config`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use gimbal_admission::AdminPrincipal;
use gimbal_backend::{
    AddressRange, AddressSection, BackendSpec, CertificateName, DropGuardSection, KeyListSection, LimitSection,
    LossSection, ModeSection, NamespaceSection, RemovalSection, RenamedProtocol,
};
use gimbal_model::BackendName;
use gimbal_transport::DeniedCertificate;
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::{BackendConfig, Config, ConfigError};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct File {
    admins: Vec<AdminPrincipal>,
    deny_certificates: Vec<DeniedCertificate>,
    refused_addresses: Vec<AddressRange>,
    backends: Vec<Backend>,
}

/// A backend of the list: its name, and the fields of [`BackendSpec`] that the writer follows, some of them with their places.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Backend {
    name: Spanned<Name>,
    identity: Spanned<CertificateName>,
    #[serde(default)]
    namespaces: NamespaceSection,
    #[serde(default)]
    addresses: AddressSection,
    #[serde(default)]
    strip: KeyListSection,
    #[serde(default)]
    keep: KeyListSection,
    #[serde(default)]
    app_protocol: BTreeMap<String, RenamedProtocol>,
    #[serde(default)]
    quota: LimitSection,
    #[serde(default)]
    on_loss: Option<Spanned<LossSection>>,
    #[serde(default)]
    on_removal: RemovalSection,
    #[serde(default)]
    guard: DropGuardSection,
    #[serde(default)]
    mode: ModeSection,
}

struct Name(BackendName);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        BackendName::parse(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// Parses and checks the text of a file. `path` is used in errors only.
pub(super) fn read(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let wrong = |location: Option<serde_saphyr::Location>, message: &str| ConfigError {
        place: match location {
            Some(at) => format!("{}:{}:{}", path.display(), at.line(), at.column()),
            None => path.display().to_string(),
        },
        problem: message.to_owned(),
    };
    // A file that is being written is empty for a moment, which must never read as "no backends".
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Err(wrong(None, "is empty: name at least one backend, or write {} for none"));
    }
    let file: File = serde_saphyr::from_str(text).map_err(|error| {
        let message = plain(&error);
        wrong(error.location(), &message)
    })?;
    let mut names = BTreeSet::new();
    let mut identities = BTreeSet::new();
    for backend in &file.backends {
        let (name, identity) = (&backend.name.value.0, &backend.identity.value.0);
        if !names.insert(name) {
            let at = Some(backend.name.referenced);
            return Err(wrong(at, &format!("two backends have the name {name}: give one of them another")));
        }
        if let Some(loss) = &backend.on_loss
            && let Err(problem) = loss.value.check()
        {
            return Err(wrong(Some(loss.referenced), &format!("onLoss of {name}: {problem}")));
        }
        if !identities.insert(identity.to_ascii_lowercase()) {
            let at = Some(backend.identity.referenced);
            return Err(wrong(at, &format!("two backends have the identity {identity:?}: each needs its own")));
        }
    }
    let refused: Vec<_> = file.refused_addresses.into_iter().map(|range| range.0).collect();
    let backends = file.backends.into_iter().map(|backend| backend.into_config(&refused)).collect();
    Ok(Config {
        admins: file.admins,
        denied: file.deny_certificates.into_iter().collect(),
        refused_addresses: refused,
        backends,
        any_backend: false,
    })
}

impl Backend {
    fn into_config(self, refused: &[ipnet::IpNet]) -> BackendConfig {
        let Self {
            name,
            identity,
            namespaces,
            addresses,
            strip,
            keep,
            app_protocol,
            quota,
            on_loss,
            on_removal,
            guard,
            mode,
        } = self;
        let on_loss = on_loss.map(|loss| loss.value).unwrap_or_default();
        let identity = identity.value;
        let spec = BackendSpec {
            identity,
            namespaces,
            addresses,
            strip,
            keep,
            app_protocol,
            quota,
            on_loss,
            on_removal,
            guard,
            mode,
            // A file has no object that a discoverer could belong to.
            source: None,
        };
        BackendConfig::new(name.value.0, spec, refused)
    }
}

/// Returns the message on one line, without the place, which is printed before it.
fn plain(error: &serde_saphyr::Error) -> String {
    let options = serde_saphyr::render_options! {
        formatter: &serde_saphyr::UserMessageFormatter,
        snippets: serde_saphyr::SnippetMode::Off,
    };
    let text = error.render_with_options(options);
    let line = text.lines().next().unwrap_or_default();
    line.rsplit_once(" at line ").map_or(line, |(message, _)| message).to_owned()
}
