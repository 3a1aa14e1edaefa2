//! A real OpenStack cloud, mirrored by real binaries into a real API server, in both modes at once. What the real cloud
//! cannot be made to do is in `openstack_fake`.
//!
//! One cloud for all steps, since it takes seconds to start: they run one after the other.

mod changes;
mod projects;
mod quiet;
mod roles;
mod stage;
mod trouble;

use stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_is_mirrored_in_both_modes_through_changes_and_trouble() {
    let mut stage = Stage::start().await;
    trouble::the_mode_is_told(&stage).await;
    changes::a_tree_arrives_as_it_is(&stage).await;
    changes::members_and_switches_are_followed(&stage).await;
    changes::health_is_swept(&stage).await;
    changes::names_that_kubernetes_would_not_take(&stage).await;
    quiet::an_idle_poll_is_three_calls(&mut stage).await;
    quiet::restarts_write_nothing(&mut stage).await;
    // A third backend is connected from here on.
    changes::pools_of_l7_policies_are_services_of_their_own(&stage).await;
    projects::a_renamed_project_moves(&stage).await;
    trouble::keystone_is_down_for_a_while(&stage).await;
    trouble::octavia_is_down_for_a_while(&stage).await;
    trouble::a_password_that_changes_is_read_again(&stage).await;
    trouble::invalid_credentials_end_the_start(&stage).await;
    projects::a_deleted_project_takes_its_services_along(&stage).await;
}
