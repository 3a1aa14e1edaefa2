//! Ingresses to routers and back.

mod classes;
mod common;
mod defects;
mod desired;
mod golden;
mod matching;
mod order;
mod pools;
mod room;
mod routing;
mod seed;
mod status;
mod tls;
mod tls_streamed;
