//! Registries against the model of Octavia and Neutron, with virtual time.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod adoption;
mod answers;
mod any_trouble;
mod certificates;
mod crowds;
mod drift;
mod gap;
mod group_orders;
mod groups_of_many;
mod guards;
mod health;
mod heap;
mod left;
mod making;
mod members_quota;
mod ownership;
mod pace;
mod replacements;
mod requests;
mod routers;
mod routers_in_trouble;
mod sharing;
mod streams;
mod turns;
mod unreadable;
mod wish;
mod world;
