//! Projects that come, go and change.

use serde_json::{Value, json};

use super::api::id;
use super::{DOMAIN, OpenStack, User, seed};

impl OpenStack {
    /// The ID of a project of the domain [`DOMAIN`], by its name.
    ///
    /// # Errors
    /// There is none, or what Keystone says.
    pub async fn project(&self, name: &str) -> anyhow::Result<String> {
        Ok(seed::found(&self.identity, &format!("/projects?name={name}")).await?)
    }

    /// Makes a project that the discoverer is a member of, and returns its ID.
    ///
    /// # Errors
    /// What Keystone says.
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
    /// What Keystone says.
    pub async fn update_project(&self, id: &str, fields: &Value) -> anyhow::Result<()> {
        self.identity.patch(&format!("/projects/{id}"), &json!({"project": fields})).await?;
        Ok(())
    }

    /// Deletes a project. Its load balancers stay, as in any cloud.
    ///
    /// # Errors
    /// What Keystone says.
    pub async fn delete_project(&self, id: &str) -> anyhow::Result<()> {
        self.identity.delete(&format!("/projects/{id}")).await?;
        Ok(())
    }

    /// Makes a user a member of a project, given by its ID.
    ///
    /// # Errors
    /// What Keystone says.
    pub async fn grant(&self, project: &str, user: User) -> anyhow::Result<()> {
        Ok(seed::grant(&self.identity, project, user).await?)
    }

    /// Ends what [`OpenStack::grant`] began.
    ///
    /// # Errors
    /// What Keystone says.
    pub async fn revoke(&self, project: &str, user: User) -> anyhow::Result<()> {
        Ok(seed::revoke(&self.identity, project, user).await?)
    }

    /// Gives a user another password; the tokens that it has end with the old one.
    ///
    /// # Errors
    /// What Keystone says.
    pub async fn set_password(&self, user: User, password: &str) -> anyhow::Result<()> {
        let id = seed::found(&self.identity, &format!("/users?name={}", user.name())).await?;
        self.identity.patch(&format!("/users/{id}"), &json!({"user": {"password": password}})).await?;
        Ok(())
    }
}
