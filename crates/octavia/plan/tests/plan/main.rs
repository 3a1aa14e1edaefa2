//! The step against the model of Octavia: whatever is lost, refused or killed on the way, what is wanted comes true.
#![expect(clippy::unwrap_used, reason = "helpers of a test panic as a test does")]

mod algorithms;
mod any_trouble;
mod certificates;
mod complaints;
mod executor;
mod fields;
mod floating;
mod foresight;
mod gap;
mod given_away;
mod groups;
mod leftovers;
mod overlap;
mod provider;
mod ranges;
mod rebuilt_routers;
mod redirects;
mod refusals;
mod refused_members;
mod removal;
mod repair;
mod replacement;
mod router_wish;
mod routers;
mod routers_in_trouble;
mod routers_without_room;
mod services;
mod sharing;
mod size;
mod strangers;
mod tags;
mod unfinished;
mod unmarked;
mod upgrades;
mod wish;
