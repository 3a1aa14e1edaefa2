//! Creates, changes and deletes projects, and the rights on them.

use serde_json::{Value, json};

use super::api::id;
use super::{DOMAIN, OpenStack, Service, User, seed};

impl OpenStack {
    /// Returns the ID of the project of this name.
    ///
    /// # Errors
    /// The project does not exist, or Keystone's error.
    pub async fn project(&self, name: &str) -> anyhow::Result<String> {
        Ok(seed::found(&self.identity, &format!("/projects?name={name}")).await?)
    }

    /// Creates a project that the discoverer is a member of, and returns its ID.
    ///
    /// # Errors
    /// Keystone's error.
    pub async fn create_project(&self, name: &str) -> anyhow::Result<String> {
        let domain = seed::found(&self.identity, &format!("/domains?name={DOMAIN}")).await?;
        let made = self.identity.post("/projects", &json!({"project": {"name": name, "domain_id": domain}})).await?;
        let project = id(&made["project"])?;
        self.grant(&project, User::Discoverer).await?;
        Ok(project)
    }

    /// Changes fields of a project, for instance `{"name": "new"}` or `{"enabled": false}`.
    ///
    /// # Errors
    /// Keystone's error.
    pub async fn update_project(&self, id: &str, fields: &Value) -> anyhow::Result<()> {
        self.identity.patch(&format!("/projects/{id}"), &json!({"project": fields})).await?;
        Ok(())
    }

    /// Deletes a project. Its load balancers stay, as in any cloud.
    ///
    /// # Errors
    /// Keystone's error.
    pub async fn delete_project(&self, id: &str) -> anyhow::Result<()> {
        self.identity.delete(&format!("/projects/{id}")).await?;
        Ok(())
    }

    /// Makes a user a member of a project, given by its ID.
    ///
    /// # Errors
    /// Keystone's error.
    pub async fn grant(&self, project: &str, user: User) -> anyhow::Result<()> {
        Ok(seed::grant(&self.identity, project, user).await?)
    }

    /// Revokes the roles of [`OpenStack::grant`].
    ///
    /// # Errors
    /// Keystone's error.
    pub async fn revoke(&self, project: &str, user: User) -> anyhow::Result<()> {
        Ok(seed::revoke(&self.identity, project, user).await?)
    }

    /// Grants or revokes one role of a user on a project, given by its ID.
    ///
    /// # Errors
    /// Keystone's error.
    pub async fn set_role(&self, project: &str, user: User, role: &str, has: bool) -> anyhow::Result<()> {
        let path = format!("/projects/{project}{}", seed::of_user(&self.identity, user.name(), role).await?);
        match has {
            true => self.identity.put(&path, &Value::Null).await?,
            false => self.identity.delete(&path).await?,
        };
        Ok(())
    }

    /// Grants a user a role on the whole system.
    ///
    /// # Errors
    /// Keystone's error.
    pub async fn grant_on_system(&self, user: User, role: &str) -> anyhow::Result<()> {
        let path = format!("/system{}", seed::of_user(&self.identity, user.name(), role).await?);
        self.identity.put(&path, &Value::Null).await?;
        Ok(())
    }

    /// Creates an application credential of a user for a project, given by its ID. Returns the credential's ID and
    /// secret.
    ///
    /// # Errors
    /// Keystone's error.
    pub async fn create_application_credential(&self, project: &str, user: User) -> anyhow::Result<(String, String)> {
        let own = self.identity.as_user(&user.log_in_to(project)).await?;
        let user = seed::found(&self.identity, &format!("/users?name={}", user.name())).await?;
        let body = json!({"application_credential": {"name": format!("of-{project}")}});
        let made = own.post(&format!("/users/{user}/application_credentials"), &body).await?;
        let made = &made["application_credential"];
        let secret = made["secret"].as_str().unwrap_or_default().to_owned();
        Ok((id(made)?, secret))
    }

    /// Sets limits of a project, given by its ID, in Octavia or Neutron, for instance `{"load_balancer": 1}`. -1 is
    /// no limit, which is what every project has at first.
    ///
    /// # Errors
    /// The service's error, or it has no quotas.
    pub async fn set_quota(&self, service: Service, project: &str, limits: &Value) -> anyhow::Result<()> {
        let path = format!("/quotas/{project}");
        let body = json!({"quota": limits});
        match service {
            Service::Octavia => self.octavia.put(&path, &body).await?,
            other => self.neutron(other)?.put(&path, &body).await?,
        };
        Ok(())
    }

    /// Writes policy rules (YAML) that override Octavia's own. Octavia reads them with the next request.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_octavia_policy(&self, rules: &str) -> anyhow::Result<()> {
        self.layout.write_policy(rules)
    }

    /// Changes a user's password; tokens issued with the old one become invalid.
    ///
    /// # Errors
    /// Keystone's error.
    pub async fn set_password(&self, user: User, password: &str) -> anyhow::Result<()> {
        let id = seed::found(&self.identity, &format!("/users?name={}", user.name())).await?;
        self.identity.patch(&format!("/users/{id}"), &json!({"user": {"password": password}})).await?;
        Ok(())
    }
}
