//! Real binaries between real servers, a module for each subject. All in one program, so that tests that wait leave the
//! processors to others.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is the report.

/// Carries out one step after the other, and prints which one was done and how long it took: whoever reads the output of a test
/// that failed sees how far it came.
macro_rules! steps {
    ($($step:expr),* $(,)?) => {
        $(
            let begun = std::time::Instant::now();
            $step.await;
            println!("{:>6.1} s  {}", begun.elapsed().as_secs_f64(), stringify!($step));
        )*
    };
}

mod absence;
mod accepted_form;
mod alerts;
mod alone;
mod backend_definition;
mod backend_events;
mod backend_objects;
mod backend_orders;
mod backend_removal;
mod backend_status;
mod bad_input;
mod certificates;
mod check;
mod cli;
mod cycle;
mod decommission;
mod diff;
mod endpoints_api;
mod endurance;
mod events;
mod first_look;
mod from_the_original;
mod guard;
mod hostile;
mod identity;
mod inspect;
mod kept_state;
mod kuryr;
mod large;
mod lease;
mod loss;
mod mirror;
mod namespaces;
mod openstack;
mod openstack_fake;
mod openstack_lbaas;
mod openstack_leaks;
mod openstack_scale;
mod openstack_traffic;
mod openstack_way_back;
mod openstack_writer;
mod operator;
mod own_authority;
mod ownership;
mod pace;
mod page_in_browser;
mod page_of_tests;
mod policy;
mod propagation;
mod published;
mod quarantine;
mod quiet;
mod quota;
mod rehearsal;
mod restored;
mod source;
mod status_page;
mod through_envoy;
mod traces;
mod two_writers;
mod upgrades;
mod why;
