//! Generates `gimbal_wire::pb` without protoc. The streams' own service is not generated: its server and its client are
//! generic over the payload. Without the feature `services` there are no services.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

const PROTO: &str = "../../../proto";
const FILES: [&str; 3] =
    ["gimbal/discovery/v1/discovery.proto", "gimbal/discovery/v1/inspection.proto", "gimbal/discovery/v1/admin.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut all = protox::compile(FILES, [PROTO])?;
    fs::write(out.join("descriptors.bin"), protox::prost::Message::encode_to_vec(&all))?;

    let services = std::env::var_os("CARGO_FEATURE_SERVICES").is_some();
    for file in &mut all.file {
        file.service.retain(|service| services && service.name() != "DiscoveryService");
    }
    tonic_prost_build::configure()
        // Sorted maps, so that equal headers have equal bytes.
        .btree_map(".gimbal.discovery.v1.Header")
        // `Bytes`, so that half a million addresses do not need an allocation each.
        .bytes(".gimbal.discovery.v1.Endpoint")
        .bytes(".gimbal.discovery.v1.GoneGroup")
        .out_dir(&out)
        .compile_fds(all)?;
    Ok(())
}
