//! openstack-writer between a scripted controller and the real Keystone, Neutron and Octavia.
//!
//! One cloud for the steps of a test, since it takes seconds to start: they run one after the other.

mod admin;
mod adopt;
mod alerts;
mod calm;
mod controller;
mod decommission;
mod drift;
mod failures;
mod floating;
mod kinds;
mod life;
mod quotas;
mod routes;
mod routes_by_hand;
mod routes_quota;
mod services;
mod shared;
mod shown;
mod stage;
mod tls;
mod tls_by_reference;
mod trouble;
mod two_clusters;

use stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn load_balancers_are_made_changed_and_removed() {
    let mut stage = Stage::start(&["--drift-interval", "2s"]).await;
    steps![
        life::one_port(&stage),
        life::ten_ports(&stage),
        life::what_the_policy_does_not_allow(&stage),
        life::deleted_by_hand_it_comes_back(&stage),
        life::what_was_changed_by_hand_is_set_back(&stage),
        life::a_restart_changes_nothing(&mut stage),
        life::without_a_stream_nothing_is_changed(&stage),
    ];
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_made_twice() {
    // Neutron's objects get tags of the configuration by requests of their own, whose answers are lost, too.
    let args = ["--drift-interval", "1s", "--orphan-grace", "3s"];
    let (mut stage, around) = Stage::wide_with_tags(&args, &["team:shop"]).await;
    steps![
        trouble::lost_answers(&stage, &around),
        trouble::a_quota_is_reached_and_freed(&stage),
        trouble::killed_in_the_middle(&mut stage),
        trouble::orphans_go(&stage),
    ];
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_fire_for_their_own_trouble() {
    let stage = Stage::start(&["--drift-interval", "1s"]).await;
    alerts::each_trouble_fires_its_own(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_floating_ip_that_was_added_goes() {
    let (stage, around) = Stage::wide(&["--drift-interval", "1s"]).await;
    drift::an_added_floating_ip(&stage, &around).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_get_what_they_ask_for() {
    let stage = Stage::start(&["--drift-interval", "5s"]).await;
    steps![
        services::no_member_is_ready_for_a_while(&stage),
        services::tcp_udp_and_sctp_on_one_port(&stage),
        services::source_ranges(&stage),
    ];
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_ports_are_served() {
    // In one request they take seconds, and on a busy machine more than the time that is usual for a call.
    let stage = Stage::start(&["--drift-interval", "5s", "--call-timeout", "3m"]).await;
    services::fifty_ports(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_members_are_served() {
    let stage = Stage::start(&["--drift-interval", "5s", "--call-timeout", "3m"]).await;
    services::a_thousand_members(&stage).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_are_those_that_services_ask_for() {
    let (stage, around) = Stage::wide(&["--drift-interval", "5s"]).await;
    steps![
        services::two_families(&stage, &around),
        services::another_provider(&stage, &around),
        floating::of_the_pool_and_kept(&stage, &around),
        floating::of_a_user(&stage, &around),
        floating::taken_by_someone_else(&stage, &around),
    ];
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_do_by_hand_is_set_back() {
    let (stage, around) = Stage::wide(&["--drift-interval", "1s"]).await;
    steps![
        drift::a_listener_that_is_led_to_another_pool(&stage),
        drift::added_and_kept(&stage),
        drift::missing_and_changed(&stage, &around),
        drift::who_may_connect_is_set_back(&stage),
    ];
}

/// From a certificate's content to a client that gets it by the name it asks for.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_stored_served_turned_and_removed() {
    let mut stage = Stage::with_certificates(&["--drift-interval", "5s"]).await;
    steps![
        tls::two_certificates_are_served_by_name(&stage),
        tls::a_certificate_is_turned_without_a_failed_request(&stage),
        tls::killed_while_one_is_turned(&mut stage),
        tls::nothing_is_left_of_a_router(&stage),
        tls::a_key_manager_that_refuses(&mut stage),
        tls_by_reference::a_certificate_that_a_user_has_stored_is_served(&stage),
    ];
}

/// Policies, rules, pools and certificates of a router.
#[tokio::test(flavor = "multi_thread")]
async fn routes_are_not_lost_or_made_twice() {
    let stage = Stage::with_certificates(&["--drift-interval", "1s"]).await;
    routes::serve_members(&stage).await;
    steps![routes::lost_answers(&stage)];
    // Each takes minutes.
    if std::env::var_os("GIMBAL_PROVE").is_some() {
        steps![
            routes_by_hand::what_people_do_by_hand(&stage),
            routes::a_quota_is_reached_and_raised(&stage),
            routes::two_writers_with_one_router(&stage),
        ];
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_the_cloud_pass() {
    let mut stage = Stage::start(&["--drift-interval", "1s"]).await;
    steps![
        failures::a_provider_takes_one_part_at_a_time(&mut stage),
        failures::one_is_pending_for_ever_and_the_others_go_on(&stage),
        failures::errors_are_repaired(&stage),
        failures::a_failed_change_is_made_again(&stage),
        failures::a_storm_of_conflicts_passes(&stage),
        failures::busy_services_are_asked_again(&stage),
        failures::another_writer_goes_on_in_the_middle(&stage),
    ];
}

/// Of Octavia's listeners and members, and of Neutron's floating IPs.
#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_reached_and_freed() {
    let (mut stage, around) = Stage::wide(&["--drift-interval", "1s"]).await;
    steps![
        quotas::of_listeners(&stage),
        quotas::of_members(&stage),
        quotas::of_floating_ips(&stage, &around),
        quotas::what_is_left(&mut stage),
    ];
}

/// It takes minutes: the first steps of a router have a test of their own above.
#[tokio::test(flavor = "multi_thread")]
async fn routes_are_not_lost_to_a_quota() {
    let stage = Stage::with_certificates(&["--drift-interval", "1s"]).await;
    routes::serve_members(&stage).await;
    steps![routes_quota::of_pools(&stage), routes_quota::of_listeners(&stage)];
}
