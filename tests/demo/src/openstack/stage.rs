//! A cloud, the Gimbal cluster, and Gimbal's processes.

use std::ops::{Deref, DerefMut};

use gimbal_kubernetes_objects::keys;
use gimbal_testkit::TestCluster;
use gimbal_testkit::openstack::{Credentials, OpenStack, PROJECTS, User};
use gimbal_tests::writer_rights;

use crate::BACKEND;
use crate::processes::Processes;
use crate::sight::Sight;

const OFTEN: [&str; 3] = ["--poll-interval=1s", "--sweep=5s", "--projects-interval=1s"];

pub struct Stage {
    pub cloud: OpenStack,
    mirror: CloudMirror,
}

/// The Gimbal cluster, and the processes that mirror a cloud into it.
pub struct CloudMirror {
    pub gimbal: TestCluster,
    pub sight: Sight,
    pub processes: Processes,
}

impl Stage {
    pub async fn build() -> anyhow::Result<Self> {
        let (cloud, gimbal) = tokio::try_join!(OpenStack::start(), TestCluster::start())?;
        let mirror = CloudMirror::build(gimbal, &cloud.credentials(User::Admin)).await?;
        Ok(Self { cloud, mirror })
    }
}

impl Deref for Stage {
    type Target = CloudMirror;

    fn deref(&self) -> &CloudMirror {
        &self.mirror
    }
}

impl DerefMut for Stage {
    fn deref_mut(&mut self) -> &mut CloudMirror {
        &mut self.mirror
    }
}

impl CloudMirror {
    /// Prepares both, with the credentials of the discoverer. No process runs.
    pub async fn build(gimbal: TestCluster, credentials: &Credentials) -> anyhow::Result<Self> {
        for project in PROJECTS {
            gimbal.namespace(project).await?;
        }
        gimbal.bind(&gimbal.user("writer")?, &writer_rights()?).await?;
        let processes = Processes::new("")?;
        credentials.write_secret(&processes.programs.path("credentials"))?;
        Ok(Self { sight: Sight::open(&gimbal.client()?), gimbal, processes })
    }

    pub async fn start_writer(&mut self) -> anyhow::Result<()> {
        self.processes.start_writer(self.gimbal.user("writer")?.kubeconfig(), &[]).await
    }

    pub async fn start_discoverer(&mut self) -> anyhow::Result<()> {
        let programs = &self.processes.programs;
        let credentials = programs.path("credentials");
        let discoverer = programs.openstack_discoverer(BACKEND, &credentials, self.processes.writer_port, &OFTEN)?;
        self.processes.started(discoverer).await
    }

    /// Returns commands for further exploration.
    pub fn hints(&self) -> anyhow::Result<[(&'static str, String); 3]> {
        let discoverer = self.processes.discoverer()?;
        let metrics = format!("http://127.0.0.1:{}/metrics", discoverer.admin_port);
        Ok([
            (
                "what is in the Gimbal cluster",
                format!(
                    "kubectl --kubeconfig {} get services,endpointslices -A -l {}={BACKEND}",
                    self.gimbal.kubeconfig().display(),
                    keys::BACKEND
                ),
            ),
            ("what the discoverer knows", discoverer.ask().line("InspectionService/ListServices")?),
            ("what polls cost", format!("curl -s {metrics} | grep -E 'cloud_calls|poll_'")),
        ])
    }
}
