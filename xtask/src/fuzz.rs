//! `cargo xtask fuzz`: a target of `tests/fuzz`, with coverage as its guide.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::shell;

/// The compiler flags that libFuzzer needs. Sanitizers require a nightly compiler, and would find little without
/// `unsafe`.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions --cfg fuzzing";

#[derive(clap::Args)]
pub struct Args {
    /// Which: frames, answers, objects, policy, ... (tests/fuzz/src)
    target: String,
    /// How long, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Put the corpus in order afterwards: as few inputs as reach the same code.
    #[arg(long)]
    minimize: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut rustc = shell::command("rustc");
    rustc.args(["--print", "host-tuple"]);
    let host = shell::output(rustc)?;
    let host = host.trim();
    let build = shell::root().join("target/fuzz");
    let mut cargo = shell::cargo(&[
        "build",
        "--profile",
        "quick",
        "--package",
        "gimbal-fuzz",
        "--features",
        "libfuzzer",
        "--bin",
        "fuzz",
    ]);
    // With an explicit target, build scripts and macros are built without the flags.
    cargo.args(["--target", host]).arg("--target-dir").arg(&build).env("RUSTFLAGS", FLAGS);
    shell::run(cargo)?;
    let binary = build.join(host).join("quick/fuzz");
    // libFuzzer reads and writes folders; the repository has one packed file per target.
    let kept = build.join("kept").join(&args.target);
    if kept.exists() {
        std::fs::remove_dir_all(&kept).with_context(|| format!("cannot remove {}", kept.display()))?;
    }
    std::fs::create_dir_all(&kept).with_context(|| format!("cannot create {}", kept.display()))?;
    corpus("unpack", &args.target, &kept)?;
    let artifacts = build.join("artifacts/");
    std::fs::create_dir_all(&artifacts).with_context(|| format!("cannot create {}", artifacts.display()))?;
    let found = build.join("corpus").join(&args.target);
    std::fs::create_dir_all(&found).with_context(|| format!("cannot create {}", found.display()))?;
    let fuzz = |flags: &[String], folders: &[&PathBuf]| {
        let mut command = shell::command(&binary);
        command.env("GIMBAL_FUZZ_TARGET", &args.target).env("GIMBAL_FUZZ_SEEDS", &found).args(flags).args(folders);
        shell::run(command)
    };
    let flags = [
        format!("-max_total_time={}", args.seconds),
        format!("-artifact_prefix={}", artifacts.display()),
        "-max_len=16384".into(),
        "-timeout=10".into(),
        "-rss_limit_mb=2048".into(),
        "-print_final_stats=1".into(),
    ];
    fuzz(&flags, &[&found, &kept])?;
    if args.minimize {
        // One input per reached place; distinguishing how often it is reached would keep thousands.
        let merge = ["-set_cover_merge=1", "-use_counters=0", "-max_len=4096"].map(String::from);
        fuzz(&merge, &[&kept, &found])?;
        corpus("pack", &args.target, &kept)?;
    }
    Ok(())
}

/// Unpacks the kept inputs of a target into a folder, or packs the folder into the file that is kept.
fn corpus(what: &str, target: &str, folder: &Path) -> anyhow::Result<()> {
    let mut command =
        shell::cargo(&["run", "--quiet", "--package", "gimbal-fuzz", "--bin", "corpus", "--", what, target]);
    command.arg(folder);
    shell::run(command)
}
