//! Settings by key, independent of their names in each source, and errors that use the source's names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use super::{CredentialsError, Domain};

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CredentialsKey {
    AuthType,
    AuthUrl,
    UserId,
    Username,
    Password,
    UserDomainId,
    UserDomainName,
    CredentialId,
    CredentialName,
    CredentialSecret,
    ProjectId,
    ProjectName,
    ProjectDomainId,
    ProjectDomainName,
    DefaultDomainId,
    DefaultDomainName,
    SystemScope,
    Region,
    Interface,
    AuthorityFile,
    AuthorityData,
    LoadBalancerUrl,
    NetworkUrl,
    Verify,
    Insecure,
}

/// The names of a setting in a folder, in `clouds.yaml` (those under `auth` are also accepted beside it) and in the
/// environment. Errors suggest the first name.
pub(super) struct Setting {
    pub key: CredentialsKey,
    pub folder: &'static [&'static str],
    pub cloud: &'static [&'static str],
    pub variable: &'static [&'static str],
}

const fn setting(
    key: CredentialsKey,
    folder: &'static [&'static str],
    cloud: &'static [&'static str],
    variable: &'static [&'static str],
) -> Setting {
    Setting { key, folder, cloud, variable }
}

#[rustfmt::skip]
pub(super) static SETTINGS: &[Setting] = &[
    setting(CredentialsKey::AuthType, &[], &["auth_type"], &["OS_AUTH_TYPE"]),
    setting(CredentialsKey::AuthUrl, &["keystoneUrl"], &["auth.auth_url"], &["OS_AUTH_URL"]),
    setting(CredentialsKey::UserId, &["userId"], &["auth.user_id"], &["OS_USER_ID"]),
    setting(CredentialsKey::Username, &["username"], &["auth.username"], &["OS_USERNAME"]),
    setting(CredentialsKey::Password, &["password"], &["auth.password"], &["OS_PASSWORD"]),
    setting(CredentialsKey::UserDomainId, &["userDomainId"], &["auth.user_domain_id"], &["OS_USER_DOMAIN_ID"]),
    setting(CredentialsKey::UserDomainName, &["userDomain"], &["auth.user_domain_name"], &["OS_USER_DOMAIN_NAME"]),
    setting(CredentialsKey::CredentialId, &["applicationCredentialId"], &["auth.application_credential_id"], &["OS_APPLICATION_CREDENTIAL_ID"]),
    setting(CredentialsKey::CredentialName, &["applicationCredentialName"], &["auth.application_credential_name"], &["OS_APPLICATION_CREDENTIAL_NAME"]),
    setting(CredentialsKey::CredentialSecret, &["applicationCredentialSecret"], &["auth.application_credential_secret"], &["OS_APPLICATION_CREDENTIAL_SECRET"]),
    setting(CredentialsKey::ProjectId, &["projectId"], &["auth.project_id", "auth.tenant_id"], &["OS_PROJECT_ID", "OS_TENANT_ID"]),
    setting(CredentialsKey::ProjectName, &["projectName"], &["auth.project_name", "auth.tenant_name"], &["OS_PROJECT_NAME", "OS_TENANT_NAME"]),
    setting(CredentialsKey::ProjectDomainId, &["projectDomainId"], &["auth.project_domain_id"], &["OS_PROJECT_DOMAIN_ID"]),
    setting(CredentialsKey::ProjectDomainName, &["projectDomain"], &["auth.project_domain_name"], &["OS_PROJECT_DOMAIN_NAME"]),
    setting(CredentialsKey::DefaultDomainId, &[], &["auth.default_domain_id", "auth.default_domain"], &["OS_DEFAULT_DOMAIN_ID", "OS_DEFAULT_DOMAIN"]),
    setting(CredentialsKey::DefaultDomainName, &[], &["auth.default_domain_name"], &["OS_DEFAULT_DOMAIN_NAME"]),
    setting(CredentialsKey::SystemScope, &["systemScope"], &["auth.system_scope"], &["OS_SYSTEM_SCOPE"]),
    setting(CredentialsKey::Region, &["region"], &["region_name"], &["OS_REGION_NAME"]),
    setting(CredentialsKey::Interface, &["interface"], &["interface", "endpoint_type"], &["OS_INTERFACE", "OS_ENDPOINT_TYPE"]),
    setting(CredentialsKey::AuthorityFile, &[], &["cacert"], &["OS_CACERT"]),
    setting(CredentialsKey::AuthorityData, &["certificateAuthorityData"], &[], &[]),
    setting(CredentialsKey::LoadBalancerUrl, &["octaviaUrl"], &["load_balancer_endpoint_override"], &["OS_LOAD_BALANCER_ENDPOINT_OVERRIDE"]),
    setting(CredentialsKey::NetworkUrl, &["neutronUrl"], &["network_endpoint_override"], &["OS_NETWORK_ENDPOINT_OVERRIDE"]),
    setting(CredentialsKey::Verify, &[], &["verify"], &[]),
    setting(CredentialsKey::Insecure, &[], &["insecure"], &["OS_INSECURE"]),
];

/// The source of settings.
pub(super) enum CredentialsOrigin {
    /// A folder with one file for each setting.
    Folder(PathBuf),
    /// An entry of `clouds.yaml`.
    Cloud { file: PathBuf, name: String },
    /// Environment variables.
    Environment,
}

/// The settings of one source. It has no `Debug`, because it holds secrets while they are read.
pub(super) struct Given {
    source: CredentialsOrigin,
    values: BTreeMap<CredentialsKey, Value>,
}

struct Value {
    text: SecretString,
    /// The file and the key, or the variable.
    place: String,
}

impl Given {
    pub(super) fn new(source: CredentialsOrigin) -> Self {
        Self { source, values: BTreeMap::new() }
    }

    /// Adds a value. An empty value counts as missing.
    pub(super) fn put(&mut self, key: CredentialsKey, text: String, place: String) {
        if !text.is_empty() {
            self.values.insert(key, Value { text: text.into(), place });
        }
    }

    pub(super) fn has(&self, key: CredentialsKey) -> bool {
        self.values.contains_key(&key)
    }

    pub(super) fn text(&self, key: CredentialsKey) -> Option<&str> {
        self.values.get(&key).map(|value| value.text.expose_secret())
    }

    pub(super) fn required(&self, key: CredentialsKey) -> Result<&str, CredentialsError> {
        self.text(key).ok_or_else(|| self.missing(key))
    }

    pub(super) fn secret(&self, key: CredentialsKey) -> Result<SecretString, CredentialsError> {
        self.required(key).map(SecretString::from)
    }

    pub(super) fn domain(&self, id: CredentialsKey, name: CredentialsKey) -> Option<Domain> {
        let by_name = || self.text(name).map(|name| Domain::Name(name.to_owned()));
        self.text(id).map(|id| Domain::Id(id.to_owned())).or_else(by_name)
    }

    /// Returns a service's URL. A URL with a password is refused, because errors would show it.
    pub(super) fn url(&self, key: CredentialsKey) -> Result<Option<Url>, CredentialsError> {
        let Some(text) = self.text(key) else { return Ok(None) };
        // The error does not repeat the text, which may contain a password.
        let mut url = Url::parse(text).map_err(|error| self.wrong(key, &format!("is not a URL: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(self.wrong(key, "must start with http:// or https:// and name a host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(self.wrong(key, "must not hold a user or a password; give them by their own keys"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(self.wrong(key, "must not hold a query or a fragment"));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Some(url))
    }

    /// Returns Keystone's URL, including `/v3`.
    pub(super) fn keystone_url(&self) -> Result<Url, CredentialsError> {
        let Some(mut url) = self.url(CredentialsKey::AuthUrl)? else {
            return Err(self.missing(CredentialsKey::AuthUrl));
        };
        let path = url.path().trim_end_matches('/').to_owned();
        match path.rsplit('/').next() {
            Some("v3") => url.set_path(&path),
            Some("v2.0") => {
                return Err(
                    self.wrong(CredentialsKey::AuthUrl, "Keystone v2.0 is not supported; give its address with /v3")
                );
            }
            _ => url.set_path(&format!("{path}/v3")),
        }
        Ok(url)
    }

    /// Refuses settings that switch off certificate verification, which would send the password to any server that
    /// answers.
    pub(super) fn refuse_no_verification(&self) -> Result<(), CredentialsError> {
        let yes = |text: &str| matches!(text.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1");
        let off = match (self.text(CredentialsKey::Verify), self.text(CredentialsKey::Insecure)) {
            (Some(verify), _) if !yes(verify) => CredentialsKey::Verify,
            (_, Some(insecure)) if yes(insecure) => CredentialsKey::Insecure,
            _ => return Ok(()),
        };
        Err(self.wrong(off, "certificates are always verified; name the authority that signed the cloud's instead"))
    }

    /// Returns an error about a value that was given.
    pub(super) fn wrong(&self, key: CredentialsKey, problem: &str) -> CredentialsError {
        let place = self.values.get(&key).map_or_else(|| self.source.place(), |value| value.place.clone());
        CredentialsError { place, problem: problem.to_owned() }
    }

    /// Returns an error about a value that is missing or empty.
    pub(super) fn missing(&self, key: CredentialsKey) -> CredentialsError {
        let names = |setting: &Setting| match self.source {
            CredentialsOrigin::Folder(_) => setting.folder,
            CredentialsOrigin::Cloud { .. } => setting.cloud,
            CredentialsOrigin::Environment => setting.variable,
        };
        let name = SETTINGS.iter().find(|setting| setting.key == key).and_then(|setting| names(setting).first());
        let name = name.copied().unwrap_or("a setting");
        CredentialsError { place: self.source.place(), problem: format!("{name} is missing or empty; set it") }
    }
}

impl CredentialsOrigin {
    fn place(&self) -> String {
        match self {
            Self::Folder(dir) => format!("credentials folder {}", dir.display()),
            Self::Cloud { file, name } => format!("{}: cloud {name:?}", file.display()),
            Self::Environment => "environment".to_owned(),
        }
    }
}
