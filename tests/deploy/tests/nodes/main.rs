//! What users install runs on real nodes: kubelet, containerd and Kubernetes' own controllers, and requests are answered all
//! the while.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A panic is the report.

mod clients;
mod images;
mod install;
mod operator;
