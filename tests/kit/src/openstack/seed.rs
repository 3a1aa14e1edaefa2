//! Initial content of every stack: a catalog, a domain, three projects and three users.

use serde_json::{Value, json};

use super::api::{Api, Refused, id};
use super::layout::{LBAAS_REGION, Layout};
use super::{DOMAIN, PROJECTS, REGION, User};

/// The roles of a user who may read and change the load balancers of a project, and store certificates for them.
const MEMBER: [&str; 3] = ["member", "load-balancer_member", "creator"];

/// Creates services and endpoints; each start replaces the URLs by its own.
pub(super) async fn catalog(admin: &Api, layout: &Layout) -> Result<(), Refused> {
    let mut networks = vec![REGION];
    if layout.environment.lbaas.is_some() {
        admin.post("/regions", &json!({"region": {"id": LBAAS_REGION}})).await?;
        networks.push(LBAAS_REGION);
    }
    let services = [
        ("load-balancer", "octavia", &[REGION][..]),
        ("network", "neutron", &networks),
        ("key-manager", "barbican", &[REGION]),
    ];
    for (kind, name, regions) in services {
        let service = admin.post("/services", &json!({"service": {"type": kind, "name": name}})).await?;
        for region in regions {
            for interface in ["public", "internal", "admin"] {
                let endpoint = json!({
                    "service_id": service["service"]["id"], "interface": interface, "region_id": region,
                    "url": "http://127.0.0.1:1",
                });
                admin.post("/endpoints", &json!({"endpoint": endpoint})).await?;
            }
        }
    }
    Ok(())
}

/// Creates the domain, projects, users and roles.
pub(super) async fn people(admin: &Api) -> Result<(), Refused> {
    for name in ["creator", "load-balancer_member", "load-balancer_admin", "load-balancer_global_observer"] {
        admin.post("/roles", &json!({"role": {"name": name}})).await?;
    }
    let domain = admin.post("/domains", &json!({"domain": {"name": DOMAIN}})).await?;
    let domain = &domain["domain"]["id"];
    for user in [User::Discoverer, User::Observer, User::Nobody] {
        let user = json!({"name": user.name(), "password": user.password(), "domain_id": domain});
        admin.post("/users", &json!({"user": user})).await?;
    }
    for name in PROJECTS {
        let made = admin.post("/projects", &json!({"project": {"name": name, "domain_id": domain}})).await?;
        grant(admin, &id(&made["project"])?, User::Discoverer).await?;
    }
    for (project, user, role) in
        [("admin", "admin", "load-balancer_admin"), ("alpha", "observer", "load-balancer_global_observer")]
    {
        let project = found(admin, &format!("/projects?name={project}")).await?;
        admin.put(&format!("/projects/{project}{}", of_user(admin, user, role).await?), &Value::Null).await?;
    }
    Ok(())
}

/// Returns `/users/ID/roles/ID`.
pub(super) async fn of_user(admin: &Api, user: &str, role: &str) -> Result<String, Refused> {
    let user = found(admin, &format!("/users?name={user}")).await?;
    let role = found(admin, &format!("/roles?name={role}")).await?;
    Ok(format!("/users/{user}/roles/{role}"))
}

/// Makes `user` a member of a project.
pub(super) async fn grant(admin: &Api, project: &str, user: User) -> Result<(), Refused> {
    for path in grants(admin, project, user).await? {
        admin.put(&path, &Value::Null).await?;
    }
    Ok(())
}

/// Revokes the roles of [`grant`].
pub(super) async fn revoke(admin: &Api, project: &str, user: User) -> Result<(), Refused> {
    for path in grants(admin, project, user).await? {
        admin.delete(&path).await?;
    }
    Ok(())
}

async fn grants(admin: &Api, project: &str, user: User) -> Result<Vec<String>, Refused> {
    let user = found(admin, &format!("/users?name={}", user.name())).await?;
    let mut paths = Vec::new();
    for role in MEMBER {
        let role = found(admin, &format!("/roles?name={role}")).await?;
        paths.push(format!("/projects/{project}/users/{user}/roles/{role}"));
    }
    Ok(paths)
}

/// Returns the ID of the first object of a list.
pub(super) async fn found(admin: &Api, path: &str) -> Result<String, Refused> {
    let list = admin.get(path).await?;
    let kind = path.trim_start_matches('/').split('?').next().unwrap_or_default();
    id(&list[kind][0]).map_err(|_| Refused { code: 200, message: format!("{path} finds nothing: {list}") })
}
