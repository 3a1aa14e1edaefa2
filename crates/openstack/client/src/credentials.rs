//! Credentials for a cloud, from a folder, `clouds.yaml` or environment variables.

use std::path::Path;

use reqwest::Url;
use rustls_pki_types::CertificateDer;
use secrecy::{ExposeSecret as _, SecretString};

mod authority;
mod clouds;
mod environment;
mod folder;
mod given;

use given::{CredentialsKey, Given};

/// The error for credentials that are invalid or cannot be read: one line that names the file and the key, or the
/// variable. It never quotes a secret value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct CredentialsError {
    pub(crate) place: String,
    pub(crate) problem: String,
}

/// A Keystone domain. Names of users and projects are unique only within a domain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Domain {
    /// The domain's ID.
    Id(String),
    /// The domain's name.
    Name(String),
}

/// The scope of a token: what it gives access to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TokenScope {
    /// No scope: only for listing the user's projects and requesting scoped tokens.
    Unscoped,
    /// A project by ID.
    Project(String),
    /// A project by name.
    NamedProject {
        /// The project's name.
        name: String,
        /// The project's domain.
        domain: Domain,
    },
    /// The whole system.
    System,
    /// The one project that an application credential is bound to.
    Bound,
}

/// The interface of a service's endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interface {
    /// The endpoint for all users.
    #[default]
    Public,
    /// The endpoint for clients within the cloud.
    Internal,
    /// The endpoint for operators.
    Admin,
}

impl Interface {
    /// Returns the name that the catalog uses.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

/// A user, by ID or by name and domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum User {
    Id(String),
    Name { name: String, domain: Domain },
}

/// The proof of identity that is presented to Keystone.
#[derive(Debug, Clone)]
pub(crate) enum Proof {
    Password { user: User, password: SecretString },
    Credential { id: String, secret: SecretString },
    NamedCredential { name: String, user: User, secret: SecretString },
}

impl PartialEq for Proof {
    fn eq(&self, other: &Self) -> bool {
        let same = |one: &SecretString, two: &SecretString| one.expose_secret() == two.expose_secret();
        match (self, other) {
            (Self::Password { user, password }, Self::Password { user: user2, password: password2 }) => {
                user == user2 && same(password, password2)
            }
            (Self::Credential { id, secret }, Self::Credential { id: id2, secret: secret2 }) => {
                id == id2 && same(secret, secret2)
            }
            (
                Self::NamedCredential { name, user, secret },
                Self::NamedCredential { name: name2, user: user2, secret: secret2 },
            ) => name == name2 && user == user2 && same(secret, secret2),
            _ => false,
        }
    }
}

/// The address of a cloud and a user's identity there. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct CloudCredentials {
    /// Keystone's URL, including `/v3`.
    pub(crate) keystone: Url,
    pub(crate) proof: Proof,
    /// The configured scope; [`TokenScope::Unscoped`] if none was configured.
    pub(crate) scope: TokenScope,
    pub(crate) region: Option<String>,
    pub(crate) interface: Interface,
    /// The certificate authorities that are trusted instead of the machine's. Empty: the machine's.
    pub(crate) authorities: Vec<CertificateDer<'static>>,
    /// Replaces the catalog's endpoint of type `load-balancer`.
    pub(crate) load_balancer: Option<Url>,
    /// Replaces the catalog's endpoint of type `network`.
    pub(crate) network: Option<Url>,
}

impl CloudCredentials {
    /// Returns whether both present the same proof to the same Keystone.
    #[must_use]
    pub fn show_the_same_as(&self, other: &Self) -> bool {
        self.keystone == other.keystone && self.proof == other.proof
    }

    /// Reads a folder with one file for each key, such as a mounted Secret: `keystoneUrl`, `username`, `password` and
    /// optionally `userDomain`, `neutronUrl`, `certificateAuthorityData` (PEM or base64 of it), `projectName`,
    /// `projectId`, `projectDomain`, `applicationCredentialId`, `applicationCredentialSecret`, `region`, `interface`.
    /// Trailing line ends are not part of a value.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn from_dir(dir: &Path) -> Result<Self, CredentialsError> {
        Self::assemble(&folder::read(dir)?)
    }

    /// Reads the entry `name` of `clouds.yaml`, overlaid with that of `secure.yaml`. The files are searched as by
    /// OpenStack's own tools: `$OS_CLIENT_CONFIG_FILE` (and `$OS_CLIENT_SECURE_FILE`), else the working folder, the
    /// user's configuration (`~/.config/openstack`), and `/etc/openstack`. `variable` looks up an environment variable.
    ///
    /// # Errors
    /// Names the file and the key. `verify: false` is refused: name the authority in `cacert`.
    pub fn from_cloud(name: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, CredentialsError> {
        Self::assemble(&clouds::read(name, &variable)?)
    }

    /// Reads the variables `OS_*`, or calls [`CloudCredentials::from_cloud`] if `OS_CLOUD` is set. `variable` looks up an
    /// environment variable.
    ///
    /// # Errors
    /// Names the variable.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Result<Self, CredentialsError> {
        match variable("OS_CLOUD").filter(|name| !name.is_empty()) {
            Some(name) => Self::from_cloud(&name, variable),
            None => Self::assemble(&environment::read(&variable)),
        }
    }

    /// Trusts only the certificate authorities in `file` (PEM).
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn with_authority(mut self, file: &Path) -> Result<Self, CredentialsError> {
        self.authorities = authority::read_file(file)?;
        Ok(self)
    }

    /// Returns the configured scope, if any.
    #[must_use]
    pub fn scope(&self) -> Option<&TokenScope> {
        Some(&self.scope).filter(|scope| **scope != TokenScope::Unscoped)
    }

    fn assemble(given: &Given) -> Result<Self, CredentialsError> {
        given.refuse_no_verification()?;
        let proof = proof(given)?;
        Ok(Self {
            keystone: given.keystone_url()?,
            scope: scope(given, &proof)?,
            proof,
            region: given.text(CredentialsKey::Region).map(str::to_owned),
            interface: interface(given)?,
            authorities: authority::read(given)?,
            load_balancer: given.url(CredentialsKey::LoadBalancerUrl)?,
            network: given.url(CredentialsKey::NetworkUrl)?,
        })
    }
}

fn proof(given: &Given) -> Result<Proof, CredentialsError> {
    let by_credential = match given.text(CredentialsKey::AuthType) {
        None => [CredentialsKey::CredentialId, CredentialsKey::CredentialName, CredentialsKey::CredentialSecret]
            .iter()
            .any(|key| given.has(*key)),
        Some("password" | "v3password") => false,
        Some("v3applicationcredential") => true,
        Some(other) => {
            let problem = format!("{other:?} is not supported; use v3password or v3applicationcredential");
            return Err(given.wrong(CredentialsKey::AuthType, &problem));
        }
    };
    if !by_credential {
        return Ok(Proof::Password { user: user(given)?, password: given.secret(CredentialsKey::Password)? });
    }
    let secret = given.secret(CredentialsKey::CredentialSecret)?;
    match (given.text(CredentialsKey::CredentialId), given.text(CredentialsKey::CredentialName)) {
        (Some(id), _) => Ok(Proof::Credential { id: id.to_owned(), secret }),
        (None, Some(name)) => Ok(Proof::NamedCredential { name: name.to_owned(), user: user(given)?, secret }),
        (None, None) => Err(given.missing(CredentialsKey::CredentialId)),
    }
}

fn user(given: &Given) -> Result<User, CredentialsError> {
    if let Some(id) = given.text(CredentialsKey::UserId) {
        return Ok(User::Id(id.to_owned()));
    }
    Ok(User::Name { name: given.required(CredentialsKey::Username)?.to_owned(), domain: user_domain(given) })
}

fn user_domain(given: &Given) -> Domain {
    given
        .domain(CredentialsKey::UserDomainId, CredentialsKey::UserDomainName)
        .or_else(|| given.domain(CredentialsKey::DefaultDomainId, CredentialsKey::DefaultDomainName))
        // Keystone creates a domain with this ID for clients that do not name one.
        .unwrap_or_else(|| Domain::Id("default".to_owned()))
}

fn scope(given: &Given, proof: &Proof) -> Result<TokenScope, CredentialsError> {
    let named = [CredentialsKey::ProjectId, CredentialsKey::ProjectName, CredentialsKey::SystemScope]
        .into_iter()
        .find(|key| given.has(*key));
    if !matches!(proof, Proof::Password { .. }) {
        return match named {
            Some(key) => Err(given.wrong(key, "an application credential is bound to its own project; leave this out")),
            None => Ok(TokenScope::Bound),
        };
    }
    if let Some(system) = given.text(CredentialsKey::SystemScope) {
        return match system {
            "all" => Ok(TokenScope::System),
            other => Err(given
                .wrong(CredentialsKey::SystemScope, &format!("{other:?} is unknown; the only system scope is all"))),
        };
    }
    if let Some(id) = given.text(CredentialsKey::ProjectId) {
        return Ok(TokenScope::Project(id.to_owned()));
    }
    let Some(name) = given.text(CredentialsKey::ProjectName) else { return Ok(TokenScope::Unscoped) };
    let domain = given
        .domain(CredentialsKey::ProjectDomainId, CredentialsKey::ProjectDomainName)
        .or_else(|| given.domain(CredentialsKey::DefaultDomainId, CredentialsKey::DefaultDomainName))
        .unwrap_or_else(|| user_domain(given));
    Ok(TokenScope::NamedProject { name: name.to_owned(), domain })
}

fn interface(given: &Given) -> Result<Interface, CredentialsError> {
    match given.text(CredentialsKey::Interface) {
        None | Some("public" | "publicURL") => Ok(Interface::Public),
        Some("internal" | "internalURL") => Ok(Interface::Internal),
        Some("admin" | "adminURL") => Ok(Interface::Admin),
        Some(other) => {
            Err(given.wrong(CredentialsKey::Interface, &format!("{other:?} is unknown; use public, internal or admin")))
        }
    }
}

#[cfg(test)]
mod tests;
