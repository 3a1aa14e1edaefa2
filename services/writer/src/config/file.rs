//! The file's format, and its conversion to a [`Config`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use gimbal_guard::GuardConfig;
use gimbal_model::{AddressRules, BackendName};
use gimbal_plan::{Keep, Pattern, Strip};
use gimbal_reconcile::{LossPolicy, NamespacePolicy, Policy};
use gimbal_runtime::HumanDuration;
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use super::values::{
    AppProtocol, Denial, MappedNamespace, NamespaceRule, Percent, Range, optional_count, optional_guard_time,
    optional_number,
};
use super::{BackendConfig, Config, ConfigError};

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct File {
    admins: Vec<Identity>,
    deny_certificates: Vec<Denial>,
    refused_addresses: Vec<Range>,
    backends: Vec<Backend>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Backend {
    name: Spanned<Name>,
    identity: Spanned<Identity>,
    #[serde(default)]
    namespaces: Namespaces,
    #[serde(default)]
    addresses: Addresses,
    #[serde(default)]
    strip: Lists,
    #[serde(default)]
    keep: Lists,
    #[serde(default)]
    app_protocol: BTreeMap<String, Option<AppProtocol>>,
    #[serde(default)]
    quota: Limits,
    #[serde(default)]
    on_loss: Option<Spanned<Loss>>,
    #[serde(default)]
    guard: Guard,
    #[serde(default)]
    mode: Mode,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Namespaces {
    allow: Option<Vec<NamespaceRule>>,
    deny: Vec<NamespaceRule>,
    map: BTreeMap<String, MappedNamespace>,
    create: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Addresses {
    allow: Option<Vec<Range>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Lists {
    labels: Option<Vec<String>>,
    annotations: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Loss {
    not_ready_after: Option<HumanDuration>,
    drain_after: Option<HumanDuration>,
    source_stale_after: Option<HumanDuration>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Guard {
    max_drop_percent: Option<Percent>,
    #[serde(deserialize_with = "optional_number")]
    min_endpoints: Option<u64>,
    #[serde(deserialize_with = "optional_guard_time")]
    window: Option<HumanDuration>,
    #[serde(deserialize_with = "optional_guard_time")]
    quiet_time: Option<HumanDuration>,
    #[serde(deserialize_with = "optional_guard_time")]
    release_all_after: Option<HumanDuration>,
    floors: Floors,
    readiness: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Floors {
    #[serde(deserialize_with = "optional_number")]
    endpoints_per_namespace: Option<u64>,
    #[serde(deserialize_with = "optional_number")]
    endpoints_per_service: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Limits {
    #[serde(deserialize_with = "optional_number")]
    services: Option<u64>,
    #[serde(deserialize_with = "optional_number")]
    endpoints: Option<u64>,
    #[serde(deserialize_with = "optional_number")]
    bytes: Option<u64>,
    #[serde(deserialize_with = "optional_count")]
    changes_per_second: Option<u64>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "camelCase")]
enum Mode {
    #[default]
    Admit,
    Quarantine,
}

struct Name(BackendName);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        BackendName::parse(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// A URI or DNS name, as in a certificate's subject alternative names.
struct Identity(String);

impl<'de> Deserialize<'de> for Identity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let printable = !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic());
        let uri = text.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
        let dns = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'.';
        if printable && !text.contains('*') && (uri || text.bytes().all(dns)) {
            return Ok(Self(text));
        }
        let message = format!("{text:?} is no identity: use one URI or DNS name of its certificate, without wildcards");
        Err(serde::de::Error::custom(message))
    }
}

/// Shortest time of `onLoss`. A backend that was away or silent for less must not count as lost.
const SHORTEST_LOSS: Duration = Duration::from_secs(1);

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
            && let Some(short) = [loss.value.not_ready_after, loss.value.drain_after].into_iter().flatten().min()
            && short.0 < SHORTEST_LOSS
        {
            let at = Some(loss.referenced);
            let problem = "a time shorter than 1s: the agent's mere reconnect would count as a loss; make it longer";
            return Err(wrong(at, &format!("onLoss of {name}: {problem}")));
        }
        if let Some(loss) = &backend.on_loss
            && loss.value.source_stale_after.is_some_and(|after| after.0 < SHORTEST_LOSS)
        {
            let at = Some(loss.referenced);
            let problem =
                "sourceStaleAfter is shorter than 1s: the source would always count as silent; make it longer";
            return Err(wrong(at, &format!("onLoss of {name}: {problem}")));
        }
        if let Some(loss) = &backend.on_loss
            && let (Some(first), Some(then)) = (loss.value.not_ready_after, loss.value.drain_after)
            && then.0 < first.0
        {
            let at = Some(loss.referenced);
            return Err(wrong(at, &format!("onLoss of {name}: drainAfter comes before notReadyAfter: make it longer")));
        }
        if !identities.insert(identity.to_ascii_lowercase()) {
            let at = Some(backend.identity.referenced);
            return Err(wrong(at, &format!("two backends have the identity {identity:?}: each needs its own")));
        }
    }
    let refused: Vec<_> = file.refused_addresses.into_iter().map(|range| range.0).collect();
    let backends = file.backends.into_iter().map(|backend| backend.into_config(&refused)).collect();
    Ok(Config {
        admins: file.admins.into_iter().map(|identity| identity.0).collect(),
        denied: file.deny_certificates.into_iter().map(|denial| denial.0).collect(),
        refused_addresses: refused,
        backends,
        any_backend: false,
    })
}

impl Backend {
    fn into_config(self, refused: &[ipnet::IpNet]) -> BackendConfig {
        let Namespaces { allow, deny, map, create } = self.namespaces;
        let map = map.into_iter().map(|(from, to)| (from, to.0)).collect();
        let plain = |patterns: Vec<NamespaceRule>| patterns.into_iter().map(|pattern| pattern.0).collect();
        let allowed = self.addresses.allow.map(|ranges| ranges.into_iter().map(|range| range.0).collect());
        let patterns = |texts: Vec<String>| texts.iter().map(|text| Pattern::new(text)).collect::<Vec<_>>();
        let default = Strip::default();
        let time = |time: Option<HumanDuration>| time.map(|time| time.0);
        let on_loss = self.on_loss.map(|loss| loss.value).unwrap_or_default();
        BackendConfig {
            name: self.name.value.0,
            identity: Some(self.identity.value.0),
            policy: Policy {
                on_loss: LossPolicy {
                    not_ready_after: time(on_loss.not_ready_after),
                    drain_after: time(on_loss.drain_after),
                    source_stale_after: time(on_loss.source_stale_after),
                },
                namespaces: NamespacePolicy { allow: allow.map(plain), deny: plain(deny), map, create },
                addresses: AddressRules { refused: refused.to_vec(), allowed },
                strip: Strip {
                    labels: self.strip.labels.map_or(default.labels, patterns),
                    annotations: self.strip.annotations.map_or(default.annotations, patterns),
                },
                keep: Keep { labels: self.keep.labels.map(patterns), annotations: self.keep.annotations.map(patterns) },
                app_protocols: self
                    .app_protocol
                    .into_iter()
                    .map(|(from, to)| (from.into(), to.map(|to| to.0.into())))
                    .collect(),
                quota: self.quota.into_quota(),
                guard: self.guard.into_config(),
                mode: self.mode.into_mode(),
            },
        }
    }
}

impl Limits {
    fn into_quota(self) -> gimbal_reconcile::Quota {
        let Self { services, endpoints, bytes, changes_per_second } = self;
        gimbal_reconcile::Quota { services, endpoints, bytes, changes_per_second }
    }
}

impl Mode {
    fn into_mode(self) -> gimbal_reconcile::Mode {
        match self {
            Self::Admit => gimbal_reconcile::Mode::Admit,
            Self::Quarantine => gimbal_reconcile::Mode::Quarantine,
        }
    }
}

impl Guard {
    fn into_config(self) -> GuardConfig {
        let default = GuardConfig::default();
        let time = |time: Option<HumanDuration>, default: Duration| time.map_or(default, |time| time.0);
        GuardConfig {
            max_drop_percent: self.max_drop_percent.map_or(default.max_drop_percent, |share| share.0),
            min_endpoints: self.min_endpoints.unwrap_or(default.min_endpoints),
            window: time(self.window, default.window),
            quiet_time: time(self.quiet_time, default.quiet_time),
            release_all_after: self.release_all_after.map(|time| time.0),
            floors: gimbal_guard::Floors {
                endpoints_per_namespace: self.floors.endpoints_per_namespace.unwrap_or_default(),
                endpoints_per_service: self.floors.endpoints_per_service.unwrap_or_default(),
            },
            readiness: self.readiness,
        }
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
