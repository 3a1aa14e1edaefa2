//! `cargo xtask images`.

use std::path::{Path, PathBuf};

use crate::{build, shell};

/// What is built only where it is asked for: an image serves those who have a collector, too.
const TRACED: &str = "gimbal-writer/otlp,gimbal-kubernetes-discoverer/otlp,gimbal-openstack-discoverer/otlp,\
    gimbal-kuryr-controller/otlp,gimbal-openstack-writer/otlp";

#[derive(clap::Args)]
pub struct Args {
    /// Folder of the built programs, with their feature `otlp`; without it they are built as for a release.
    #[arg(long)]
    bins: Option<PathBuf>,
    /// Folder for the images: of each program an OCI layout, and what is in it as a bill of materials (CycloneDX).
    #[arg(long, default_value = "target/images")]
    out: PathBuf,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let bins = match &args.bins {
        Some(bins) => absolute(bins)?,
        None => {
            let packages = build::SERVICES.iter().flat_map(|name| ["--package", name]);
            let build = ["build", "--release", "--locked", "--bins", "--features", TRACED];
            let build: Vec<&str> = build.into_iter().chain(packages).collect();
            shell::run(shell::cargo(&build))?;
            shell::root().join("target/release")
        }
    };
    let mut images = shell::cargo(&["run", "--quiet", "--package", "gimbal-images", "--", "--bins"]);
    images.arg(bins).arg("--out").arg(absolute(&args.out)?).args(["--features", TRACED]).args(build::SERVICES);
    shell::run(images)
}

/// Programs run in the repository's root, which need not be the folder in which the paths were given.
fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    Ok(std::path::absolute(path)?)
}
