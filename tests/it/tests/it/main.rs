//! Real binaries between real servers, a module for each subject. All in one program, so that tests that wait leave the
//! processors to others.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is the report.

mod absence;
mod accepted_form;
mod bad_input;
mod certificates;
mod cli;
mod cycle;
mod decommission;
mod endpoints_api;
mod endurance;
mod events;
mod first_look;
mod guard;
mod hostile;
mod identity;
mod inspect;
mod large;
mod lease;
mod loss;
mod mirror;
mod namespaces;
mod openstack;
mod openstack_fake;
mod openstack_lbaas;
mod openstack_scale;
mod ownership;
mod pace;
mod policy;
mod quarantine;
mod quiet;
mod quota;
mod restored;
mod source;
mod two_writers;
