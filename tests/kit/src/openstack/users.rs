//! The users of a stack, their rights and their credentials.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::{ADMIN_PASSWORD, DOMAIN, OpenStack, REGION};

/// A user of every stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// May read and change everything, with a token for the project `admin`.
    Admin,
    /// A member of the projects, without a role anywhere else.
    Discoverer,
    /// With the role `load-balancer_global_observer` on the project `alpha`, and no other.
    Observer,
    /// Without a role.
    Nobody,
}

impl User {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Discoverer => "discoverer",
            Self::Observer => "observer",
            Self::Nobody => "nobody",
        }
    }

    /// What Keystone wants for a token for a project, given by its ID.
    pub(super) fn log_in_to(self, project: &str) -> Value {
        let domain = if self == Self::Admin { "Default" } else { DOMAIN };
        let proof = json!({"name": self.name(), "password": self.password(), "domain": {"name": domain}});
        json!({
            "identity": {"methods": ["password"], "password": {"user": proof}}, "scope": {"project": {"id": project}},
        })
    }

    pub(super) fn password(self) -> &'static str {
        match self {
            Self::Admin => ADMIN_PASSWORD,
            Self::Discoverer => "discoverer-secret",
            Self::Observer => "observer-secret",
            Self::Nobody => "nobody-secret",
        }
    }
}

/// What a client needs to log in.
#[derive(Clone)]
pub struct Credentials {
    /// Keystone's URL, with `/v3`.
    pub keystone_url: String,
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// The name of the user's domain.
    pub user_domain: String,
    /// The project to request a token for; `None` for every user but the administrator: they list their projects.
    pub project: Option<String>,
    /// Region.
    pub region: String,
    /// The authority of the services' certificates, if they use TLS.
    pub ca: Option<PathBuf>,
}

impl Credentials {
    /// Writes the keys of the Secret as files into a folder, which is created.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn write_secret(&self, dir: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let ca = self.ca.as_ref().map(std::fs::read_to_string).transpose().context("cannot read the authority")?;
        let keys = [
            ("keystoneUrl", Some(&self.keystone_url)),
            ("username", Some(&self.username)),
            ("password", Some(&self.password)),
            ("userDomain", Some(&self.user_domain)),
            ("projectName", self.project.as_ref()),
            ("certificateAuthorityData", ca.as_ref()),
        ];
        for (key, value) in keys {
            if let Some(value) = value {
                std::fs::write(dir.join(key), value).with_context(|| format!("cannot write {key}"))?;
            }
        }
        Ok(())
    }

    /// Returns the environment variables that OpenStack's own clients read.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        let mut variables = vec![
            ("OS_AUTH_URL", self.keystone_url.clone()),
            ("OS_USERNAME", self.username.clone()),
            ("OS_PASSWORD", self.password.clone()),
            ("OS_USER_DOMAIN_NAME", self.user_domain.clone()),
            ("OS_REGION_NAME", self.region.clone()),
        ];
        if let Some(project) = &self.project {
            variables.push(("OS_PROJECT_NAME", project.clone()));
            variables.push(("OS_PROJECT_DOMAIN_NAME", self.user_domain.clone()));
        }
        variables.extend(self.ca.as_ref().map(|ca| ("OS_CACERT", ca.display().to_string())));
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl OpenStack {
    /// Returns a user's credentials.
    #[must_use]
    pub fn credentials(&self, user: User) -> Credentials {
        let admin = user == User::Admin;
        Credentials {
            keystone_url: self.keystone_url(),
            username: user.name().to_owned(),
            password: user.password().to_owned(),
            user_domain: if admin { "Default" } else { DOMAIN }.to_owned(),
            project: admin.then(|| "admin".to_owned()),
            region: REGION.to_owned(),
            ca: self.layout.ca.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(dir: &Path) -> Credentials {
        let ca = dir.join("ca.pem");
        std::fs::write(&ca, "a certificate").unwrap();
        Credentials {
            keystone_url: "https://127.0.0.1:5000/v3".to_owned(),
            username: "discoverer".to_owned(),
            password: "secret".to_owned(),
            user_domain: "lab".to_owned(),
            project: None,
            region: REGION.to_owned(),
            ca: Some(ca),
        }
    }

    #[test]
    fn a_secret_has_the_keys_of_seed_000() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        credentials(dir.path()).write_secret(&secret).unwrap();
        let mut keys: Vec<_> = std::fs::read_dir(&secret).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        keys.sort();
        assert_eq!(keys, ["certificateAuthorityData", "keystoneUrl", "password", "userDomain", "username"]);
        assert_eq!(std::fs::read_to_string(secret.join("certificateAuthorityData")).unwrap(), "a certificate");
        assert_eq!(std::fs::read_to_string(secret.join("userDomain")).unwrap(), "lab");
    }

    #[test]
    fn a_project_has_a_domain() {
        let dir = tempfile::tempdir().unwrap();
        let mut credentials = credentials(dir.path());
        let has = |credentials: &Credentials, name: &str| credentials.variables().iter().any(|(key, _)| key == name);
        assert!(!has(&credentials, "OS_PROJECT_NAME") && !has(&credentials, "OS_PROJECT_DOMAIN_NAME"));
        credentials.project = Some("alpha".to_owned());
        assert!(has(&credentials, "OS_PROJECT_NAME") && has(&credentials, "OS_PROJECT_DOMAIN_NAME"));
        assert!(credentials.variables().contains(&("OS_AUTH_URL".to_owned(), credentials.keystone_url)));
    }
}
