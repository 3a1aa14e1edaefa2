//! Images of Gimbal's programs, as `cargo xtask images` makes them, and of a program that answers requests.

use std::path::Path;
use std::process::Command;

use gimbal_assets::Asset;
use gimbal_testkit::cluster::Registry;
use gimbal_testkit::process::binary;

/// The versions under which every image is pushed: the charts' own, and one to upgrade to.
pub const TAGS: [&str; 2] = [env!("CARGO_PKG_VERSION"), "next"];
/// The image of a server that answers `GET /v2/` with 200.
pub const SERVER: &str = "server:1";

/// Pushes the images of these programs, and of the server.
pub fn push(registry: &Registry, programs: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let [bins, layouts] = ["bins", "layouts"].map(|name| folder.path().join(name));
    std::fs::create_dir(&bins).unwrap();
    for program in programs {
        // What debuggers read is ten times as large as the program.
        run(Command::new("strip").arg("-o").arg(bins.join(program)).arg(binary(program).unwrap()));
    }
    let images = binary("gimbal-images").unwrap();
    run(Command::new(images).arg("--bins").arg(&bins).arg("--out").arg(&layouts).args(programs));
    for (program, tag) in programs.iter().flat_map(|program| TAGS.map(|tag| (program, tag))) {
        registry.push(&layouts.join(program), &format!("{program}:{tag}")).unwrap();
    }
    // A registry is a server, too.
    registry.push_program(Path::new(&Asset::Crane.path().unwrap()), SERVER).unwrap();
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
