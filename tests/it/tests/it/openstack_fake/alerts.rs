//! Which alerts of openstack-discoverer fire for what it exposes itself, and that none does while nothing is wrong.

use gimbal_testkit::San;
use gimbal_testkit::fake_openstack::Fault;
use gimbal_testkit::pki::backend_identity;
use gimbal_tests::{Alerts, Target, expect_metric};

use super::{OFTEN, Stage};
use crate::alerts::let_it_end_soon;
use crate::certificates::pair_at;

const DISCONNECTED: &str = "GimbalOpenstackDiscovererDisconnected";
const SOURCE: &str = "GimbalOpenstackDiscovererSourceUnknown";
const FILES: &str = "GimbalOpenstackDiscovererFilesBad";
const CERTIFICATE: &str = "GimbalOpenstackDiscovererCertificateEnds";

fn target(admin_port: u16) -> Target {
    Target { job: "gimbal-openstack-discoverer", admin_port }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_trouble_of_a_discoverer_of_a_cloud_fires_its_own() {
    let mut stage = Stage::start(true).await;
    expect_metric(stage.discoverer.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
    let alerts = Alerts::watch(&[target(stage.discoverer.admin_port)]).await;
    alerts.expect(&[]).await.unwrap();

    stage.fake.fail(Fault::on("/lbaas/pools").status(500));
    alerts.expect(&[SOURCE]).await.unwrap();
    stage.fake.heal();
    alerts.expect(&[]).await.unwrap();

    let identity = backend_identity("osp1");
    let sans = [San::Uri(&identity), San::Dns("localhost"), San::Ip("127.0.0.1")];
    let_it_end_soon(&stage.scene, "osp1", &sans);
    alerts.expect(&[CERTIFICATE]).await.unwrap();
    std::fs::write(pair_at(&stage.scene, "osp1").key, "no key").unwrap();
    alerts.expect(&[CERTIFICATE, FILES]).await.unwrap();
    let_it_end_soon(&stage.scene, "osp1", &sans);
    alerts.expect(&[CERTIFICATE]).await.unwrap();

    // One that starts while its cloud does not answer has read nothing.
    stage.discoverer.process.kill().unwrap();
    stage.fake.fail(Fault::on("/v3/auth/tokens").status(500));
    let credentials = stage.scene.path("credentials");
    let late = stage.scene.openstack_discoverer("osp1", &credentials, stage.writer.port, &OFTEN).unwrap();
    expect_metric(late.admin_port, "gimbal_discoverer_connected", "", 1.0).await.unwrap();
    let alerts = Alerts::watch(&[target(late.admin_port)]).await;
    alerts.expect(&[CERTIFICATE, SOURCE]).await.unwrap();
    stage.fake.heal();
    alerts.expect(&[CERTIFICATE]).await.unwrap();

    stage.writer.process.kill().unwrap();
    alerts.expect(&[CERTIFICATE, DISCONNECTED]).await.unwrap();
}
