//! The fuzzer of `cargo xtask fuzz`: libFuzzer chooses the inputs, `GIMBAL_FUZZ_TARGET` the target.

#![no_main]

use std::sync::LazyLock;
use std::{env, fs, path::Path};

use gimbal_fuzz::{Target, target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = env::var("GIMBAL_FUZZ_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| panic!("GIMBAL_FUZZ_TARGET={name:?} is no target"))
});

/// Writes the seeds into `GIMBAL_FUZZ_SEEDS`, from which libFuzzer starts.
fn write_seeds() {
    let Ok(folder) = env::var("GIMBAL_FUZZ_SEEDS") else { return };
    for (number, seed) in (TARGET.seeds)().iter().enumerate() {
        let file = Path::new(&folder).join(format!("seed-{number}"));
        fs::write(&file, seed).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}

fuzz_target!(init: write_seeds(), |data: &[u8]| (TARGET.run)(data));
