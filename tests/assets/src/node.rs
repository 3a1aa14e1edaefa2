//! What a node runs beside Kubernetes and containerd.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::{KUBERNETES, NodeTools, cache, go_module, once, say, unpacked};

/// Where Debian's package of the plug-ins has them.
const PLUGINS: &str = "usr/lib/cni";

/// Implements [`NodeTools::find`].
pub(super) fn tools() -> anyhow::Result<NodeTools> {
    let bridge = unpacked::cached("containernetworking-plugins", &format!("{PLUGINS}/bridge"), "bridge")?;
    let plugins = bridge.parent().context("the plug-ins are in no folder")?.join("root").join(PLUGINS);
    Ok(NodeTools {
        runc: unpacked::program("runc", "usr/sbin/runc")?,
        nft: unpacked::program("nftables", "usr/sbin/nft")?,
        plugins,
        pause: pause()?,
    })
}

/// Builds Kubernetes' own source of it.
fn pause() -> anyhow::Result<PathBuf> {
    let path = cache()?.join(format!("pause-{KUBERNETES}")).join("pause");
    if path.is_file() {
        return Ok(path);
    }
    let source = go_module("k8s.io/kubernetes", KUBERNETES)?.join("build/pause/linux/pause.c");
    once(&path, |work| {
        say("building pause once");
        let mut compile = Command::new("cc");
        compile.args(["-Os", "-static", "-s", "-DVERSION=1", "-o"]).arg(work.join("pause")).arg(&source);
        let out = compile.stdin(Stdio::null()).output().context("cannot run cc")?;
        anyhow::ensure!(out.status.success(), "cc cannot build pause: {}", String::from_utf8_lossy(&out.stderr).trim());
        Ok(())
    })?;
    Ok(path)
}
