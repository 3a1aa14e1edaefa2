//! The client against a fake cloud, recorded answers and the real services.

mod common;
mod lbaas;
mod lists;
mod mutations;
mod real;
mod recorded;
mod secrets;
mod tls;
mod tokens;
