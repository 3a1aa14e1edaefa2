//! `cargo xtask crds`: the definitions of the custom resources, written again from their types.

use crate::shell;

pub fn run() -> anyhow::Result<()> {
    // A test compares the files with the types, so that xtask need not link them.
    let mut definitions = shell::cargo(&["test", "-q", "-p", "gimbal-kuryr-crd", "--test", "crd", "definition"]);
    definitions.env("GIMBAL_WRITE_DOCS", "1");
    shell::run(definitions)
}
