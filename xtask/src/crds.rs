//! `cargo xtask crds`: the definitions of the custom resources, written again from their types.

use crate::shell;

pub fn run() -> anyhow::Result<()> {
    // Tests compare the files with the types, so that xtask need not link them.
    let packages = ["-p", "gimbal-backend", "-p", "gimbal-kuryr-crd"];
    let mut definitions = shell::cargo(&["test", "-q"]);
    definitions.args(packages).args(["--test", "crd", "definition"]);
    definitions.env("GIMBAL_WRITE_DOCS", "1");
    shell::run(definitions)
}
