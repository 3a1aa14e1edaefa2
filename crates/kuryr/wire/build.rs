//! Generates `gimbal_kuryr_wire::pb` without protoc. Messages that it shares with `gimbal.discovery.v1` are those of
//! `gimbal-wire`. The streams' own service is not generated: its server and its client are generic over the payload.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

const PROTO: &str = "../../../proto";
const PACKAGE: &str = "gimbal.kuryr.v1";
const FILES: [&str; 3] =
    ["gimbal/kuryr/v1/desired_state.proto", "gimbal/kuryr/v1/inspection.proto", "gimbal/kuryr/v1/admin.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut all = protox::compile(FILES, [PROTO])?;
    fs::write(out.join("descriptors.bin"), protox::prost::Message::encode_to_vec(&all))?;

    let services = std::env::var_os("CARGO_FEATURE_SERVICES").is_some();
    for file in &mut all.file {
        let own = services && file.package() == PACKAGE;
        file.service.retain(|service| own && service.name() != "DesiredState");
    }
    tonic_prost_build::configure()
        .extern_path(".gimbal.discovery.v1", "::gimbal_wire::pb")
        // `Bytes`, so that ten thousand addresses do not need an allocation each.
        .bytes(".gimbal.kuryr.v1")
        // Sorted maps, so that equal facts have equal bytes.
        .btree_map(".gimbal.kuryr.v1")
        // It has a private key: `src/certificate.rs` has a `Debug` that does not show it.
        .skip_debug([".gimbal.kuryr.v1.CertificateContent"])
        .out_dir(&out)
        .compile_fds(all)?;
    Ok(())
}
