//! Files, ports and command lines of one stack.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::data_plane::DataPlane;
use super::environment::{Environment, source};
use super::{ADMIN_PASSWORD, Options, REGION, Service};
use crate::process::free_port;
use crate::{Pair, Pki, Process};

/// The region in whose catalog the `network` endpoint is neutron-lbaas.
pub(super) const LBAAS_REGION: &str = "RegionMitaka";

/// Files and ports of one stack.
pub(super) struct Layout {
    pub(super) dir: PathBuf,
    pub(super) environment: Environment,
    ports: BTreeMap<Service, u16>,
    tls: Option<Pair>,
    /// The authority's certificate, if the services use TLS.
    pub(super) ca: Option<PathBuf>,
    settle_delay: String,
    octavia_workers: String,
    neutron: bool,
    key_manager: bool,
    data_plane: Option<String>,
}

impl Layout {
    /// Chooses ports and writes the files that the services read.
    pub(super) fn write(dir: &Path, environment: &Environment, options: &Options) -> anyhow::Result<Self> {
        let pki = options.tls.then(|| Pki::create(dir.join("pki"))).transpose()?;
        let ports = Service::ALL.iter().map(|service| Ok((*service, free_port()?))).collect::<anyhow::Result<_>>()?;
        let layout = Self {
            dir: dir.to_owned(),
            environment: environment.clone(),
            ports,
            tls: pki.as_ref().map(|pki| pki.server("openstack")).transpose()?,
            ca: pki.as_ref().map(|pki| pki.ca().to_owned()),
            settle_delay: options.settle_delay.as_secs_f64().to_string(),
            octavia_workers: options.octavia_workers.to_string(),
            neutron: options.neutron,
            key_manager: options.key_manager,
            data_plane: options.data_plane.then(|| DataPlane::socket(dir).display().to_string()),
        };
        layout.write_policy("{}")?;
        for folder in ["conf", "lock"] {
            std::fs::create_dir_all(dir.join(folder)).with_context(|| format!("cannot make {folder}"))?;
        }
        let values = layout.values(options);
        for service in Service::ALL {
            let name = service.file();
            let text = fill(&read(&source().join("conf").join(&name))?, &values)?;
            std::fs::write(layout.conf(service), text).with_context(|| format!("cannot write {name}"))?;
        }
        Ok(layout)
    }

    /// Returns the URL of a service, without a path.
    pub(super) fn url(&self, service: Service) -> String {
        // neutron-lbaas dates from a time when TLS was left to a proxy.
        let scheme = if self.tls.is_some() && service != Service::NeutronLbaas { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}", self.ports[&service])
    }

    /// Returns the configuration file of a service.
    pub(super) fn conf(&self, service: Service) -> PathBuf {
        self.dir.join("conf").join(service.file())
    }

    /// Writes rules into the policy file of Octavia, atomically, because Octavia may read it at any time.
    pub(super) fn write_policy(&self, rules: &str) -> anyhow::Result<()> {
        let (file, new) = (self.dir.join("octavia-policy.yaml"), self.dir.join("octavia-policy.new"));
        std::fs::write(&new, rules).and_then(|()| std::fs::rename(&new, &file)).context("cannot write Octavia's policy")
    }

    /// Returns the file in which the calls to a service are logged.
    pub(super) fn calls(&self, service: Service) -> PathBuf {
        self.dir.join(format!("{}.calls", service.name()))
    }

    /// Returns the services of this stack, in the order of their start.
    pub(super) fn services(&self) -> Vec<Service> {
        let has = |service: &Service| match service {
            Service::Keystone | Service::Octavia => true,
            Service::Neutron => self.neutron,
            Service::Barbican => self.key_manager,
            Service::NeutronLbaas => self.environment.lbaas.is_some(),
        };
        Service::ALL.into_iter().filter(has).collect()
    }

    /// Starts a service; does not wait until it answers.
    pub(super) fn start(&self, service: Service) -> anyhow::Result<Process> {
        let conf = self.conf(service).display().to_string();
        let log = self.dir.join(format!("{}.log", service.name()));
        if let (Service::NeutronLbaas, Some(venv)) = (service, &self.environment.lbaas) {
            let args = ["--config-file", &conf].map(str::to_owned);
            return Process::start(service.name(), &venv.join("bin/neutron-server"), &args, &log);
        }
        let plugins = source().join("plugins");
        let calls = self.calls(service).display().to_string();
        let rules = self.dir.join(format!("{}.rules", service.name())).display().to_string();
        let mut args = ["-m", "gunicorn", "--config"].map(str::to_owned).to_vec();
        args.push(plugins.join("lab_gunicorn.py").display().to_string());
        args.extend(["--bind".to_owned(), format!("127.0.0.1:{}", self.ports[&service])]);
        args.extend(["--worker-tmp-dir".to_owned(), self.dir.display().to_string()]);
        if let Some(pair) = &self.tls {
            args.extend(["--certfile".to_owned(), pair.cert.display().to_string()]);
            args.extend(["--keyfile".to_owned(), pair.key.display().to_string()]);
        }
        args.push("lab_wsgi:application".to_owned());
        let folder = self.dir.join("conf").display().to_string();
        let plugins = plugins.display().to_string();
        let ca = self.ca.as_ref().map(|ca| ca.display().to_string());
        let mut env = vec![
            ("PYTHONPATH", plugins.as_str()),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("LAB_APP", service.name()),
            ("LAB_CONF", &conf),
            ("LAB_CALLS", &calls),
            ("LAB_RULES", &rules),
            ("LAB_SETTLE_DELAY", &self.settle_delay),
            ("LAB_WORKERS", if service == Service::Octavia { &self.octavia_workers } else { "1" }),
            ("LAB_NEUTRON_VIP", if self.neutron { "1" } else { "0" }),
            ("OS_KEYSTONE_CONFIG_FILES", &conf),
            ("OS_NEUTRON_CONFIG_DIR", &folder),
            ("OS_NEUTRON_CONFIG_FILES", "neutron.conf"),
        ];
        env.extend(ca.as_deref().map(|ca| ("SSL_CERT_FILE", ca)));
        env.extend(self.data_plane.as_deref().map(|socket| ("LAB_DATA_PLANE", socket)));
        Process::start_with(service.name(), &self.environment.venv.join("bin/python"), &args, &env, &log)
    }

    /// Returns statements that put this stack's URLs into the catalog.
    pub(super) fn catalog(&self) -> String {
        let endpoint = |kind: &str, region: &str, url: String| {
            format!(
                "update keystone.endpoint e join keystone.service s on s.id = e.service_id set e.url = '{url}' \
                 where s.type = '{kind}' and e.region_id = '{region}';"
            )
        };
        let without = "delete from keystone.endpoint where service_id in \
                       (select id from keystone.service where type = 'key-manager')";
        [
            endpoint("identity", REGION, self.identity()),
            endpoint("load-balancer", REGION, self.url(Service::Octavia)),
            endpoint("network", REGION, self.url(Service::Neutron)),
            endpoint("network", LBAAS_REGION, self.url(Service::NeutronLbaas)),
            if self.key_manager {
                endpoint("key-manager", REGION, self.url(Service::Barbican))
            } else {
                without.to_owned()
            },
        ]
        .concat()
    }

    /// Returns Keystone's URL as in the catalog.
    pub(super) fn identity(&self) -> String {
        format!("{}/v3", self.url(Service::Keystone))
    }

    fn values(&self, options: &Options) -> BTreeMap<&'static str, String> {
        let path = |path: &Path| path.display().to_string();
        let optional = |path: Option<&PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
        let mut values = BTreeMap::from([
            ("database", "mysql+pymysql://root@localhost".to_owned()),
            ("socket", path(&self.dir.join("db.sock"))),
            ("data", path(&self.dir)),
            ("venv", path(&self.environment.venv)),
            ("lbaas_venv", optional(self.environment.lbaas.as_ref())),
            ("lbaas_port", self.ports[&Service::NeutronLbaas].to_string()),
            ("keystone", self.identity()),
            ("octavia", self.url(Service::Octavia)),
            ("neutron", self.url(Service::Neutron)),
            ("ca", optional(self.ca.as_ref())),
            ("admin_password", ADMIN_PASSWORD.to_owned()),
            ("token_ttl", options.token_ttl.as_secs().to_string()),
            ("token_cache", options.token_cache.map_or_else(|| "-1".to_owned(), |time| time.as_secs().to_string())),
            ("page_max", options.page_max.to_string()),
            ("keystone_max", options.keystone_max.to_string()),
        ]);
        let driver = if self.neutron { "allowed_address_pairs_driver" } else { "network_noop_driver" };
        values.insert("network_driver", driver.to_owned());
        values.insert("barbican", self.url(Service::Barbican));
        let certificates = if self.key_manager { "barbican_cert_manager" } else { "noop_cert_manager" };
        values.insert("cert_manager", certificates.to_owned());
        values
    }
}

impl Service {
    fn file(self) -> String {
        format!("{}.conf", self.name())
    }
}

/// Replaces each `@name@` by its value; `@auth@` is a file of its own.
fn fill(template: &str, values: &BTreeMap<&str, String>) -> anyhow::Result<String> {
    let auth = read(&source().join("conf/auth.conf"))?;
    let template = template.replace("@auth@", auth.trim_end());
    let mut text = String::new();
    for (place, piece) in template.split('@').enumerate() {
        let named = place % 2 == 1;
        text.push_str(if named {
            values.get(piece).with_context(|| format!("no value for @{piece}@"))?
        } else {
            piece
        });
    }
    Ok(text)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_value_or_is_an_error() {
        let values = BTreeMap::from([("socket", "/s".to_owned())]);
        assert_eq!(fill("a = @socket@?x\nb = @socket@", &values).unwrap(), "a = /s?x\nb = /s");
        assert_eq!(fill("a = @sokcet@", &values).unwrap_err().to_string(), "no value for @sokcet@");
    }
}
