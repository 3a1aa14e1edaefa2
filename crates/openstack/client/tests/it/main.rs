//! The client against a fake cloud, recorded answers and the real services.

mod common;
mod huge;
mod lbaas;
mod lists;
mod mutations;
mod mutations_real;
mod real;
mod recorded;
mod recording;
mod secrets;
mod tls;
mod tokens;
