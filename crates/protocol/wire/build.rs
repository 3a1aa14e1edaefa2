//! Generates `gimbal_wire::pb` without protoc.
//!
//! `DiscoveryService` uses our own codec (src/codec.rs), the other services tonic's. The generator supports one codec
//! per run, so there are two runs: one for all messages and the other services, one for `DiscoveryService` alone.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

const PROTO: &str = "../../../proto";
const FILES: [&str; 3] =
    ["gimbal/discovery/v1/discovery.proto", "gimbal/discovery/v1/inspection.proto", "gimbal/discovery/v1/admin.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let all = protox::compile(FILES, [PROTO])?;
    fs::write(out.join("descriptors.bin"), protox::prost::Message::encode_to_vec(&all))?;

    let (mut messages, mut discovery) = (all.clone(), all);
    for file in &mut messages.file {
        file.service.retain(|service| service.name() != "DiscoveryService");
    }
    for file in &mut discovery.file {
        file.service.retain(|service| service.name() == "DiscoveryService");
        file.message_type.clear();
        file.enum_type.clear();
    }
    discovery.file.retain(|file| !file.service.is_empty());

    let (plain, tolerant) = (out.join("messages"), out.join("discovery"));
    fs::create_dir_all(&plain)?;
    fs::create_dir_all(&tolerant)?;
    tonic_prost_build::configure()
        // Sorted maps, so that equal headers have equal bytes.
        .btree_map(".gimbal.discovery.v1.Header")
        // `Bytes`, so that half a million addresses do not need an allocation each.
        .bytes(".gimbal.discovery.v1.Endpoint")
        .bytes(".gimbal.discovery.v1.GoneGroup")
        .out_dir(plain)
        .compile_fds(messages)?;
    tonic_prost_build::configure()
        .codec_path("crate::codec::TolerantCodec")
        .out_dir(tolerant)
        .compile_fds(discovery)?;
    Ok(())
}
