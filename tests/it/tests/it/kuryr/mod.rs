//! The way back: the custom resources, and gimbal-kuryr-controller on a real API server with a scripted openstack-writer.

mod absence;
mod alerts;
mod certificates;
mod definition;
mod leaders;
mod life;
mod nodes;
mod notices;
mod quiet;
mod rejects;
mod stage;
mod trouble;
