//! Images are what other projects' tools accept, run, and come out the same again.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use gimbal_assets::Asset;
use serde_json::Value;

use super::*;

mod publish;

const PROGRAM: &str = "gimbal-writer";

/// Makes an image of a program of this system, which is linked as ours are, so that none of ours must be built.
fn image(out: &Path) -> String {
    let bins = out.join("bins");
    std::fs::create_dir_all(&bins).unwrap();
    std::fs::copy("/bin/cat", bins.join(PROGRAM)).unwrap();
    build(PROGRAM, &bins, &[], out).unwrap()
}

fn json(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Returns the content of the blob that a descriptor names.
fn blob(out: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
    out.join(PROGRAM).join("blobs/sha256").join(digest)
}

/// Returns manifest and configuration.
fn described(out: &Path) -> (Value, Value) {
    let index = json(&out.join(PROGRAM).join("index.json"));
    let manifest = json(&blob(out, &index["manifests"][0]));
    let config = json(&blob(out, &manifest["config"]));
    (manifest, config)
}

fn files(dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>, below: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found, below);
        } else {
            found.insert(path.strip_prefix(below).unwrap().to_owned(), std::fs::read(&path).unwrap());
        }
    }
}

#[test]
fn the_same_files_make_the_same_image() {
    let outs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let digests = outs.each_ref().map(|out| image(out.path()));
    assert_eq!(digests[0], digests[1]);
    let all = outs.each_ref().map(|out| {
        let mut found = BTreeMap::new();
        files(out.path(), &mut found, out.path());
        found
    });
    // Two layers, configuration, manifest, index, the layout's mark, materials, and the program itself.
    assert_eq!(all[0].len(), 8, "{:?}", all[0].keys());
    assert!(all[0] == all[1]);
    // And again into a folder that has an image.
    assert_eq!(image(outs[0].path()), digests[0]);
}

#[test]
fn an_image_says_what_it_is_and_runs_as_no_root() {
    let out = tempfile::tempdir().unwrap();
    image(out.path());
    let (manifest, config) = described(out.path());
    let user = config["config"]["User"].as_str().unwrap();
    let charts = std::fs::read_to_string(root().join("deploy/charts/shared/_gimbal.tpl")).unwrap();
    let (uid, gid) = user.split_once(':').unwrap();
    for line in [format!("runAsUser: {uid}\n"), format!("runAsGroup: {gid}\n"), "runAsNonRoot: true".to_owned()] {
        assert!(charts.contains(&line), "the charts do not say {line}");
    }
    assert_eq!(config["config"]["Entrypoint"], serde_json::json!([format!("/{PROGRAM}")]));
    for name in ["title", "description", "version", "revision", "created", "licenses"] {
        let name = format!("org.opencontainers.image.{name}");
        assert!(!manifest["annotations"][&name].as_str().unwrap().is_empty(), "{name}");
        assert_eq!(manifest["annotations"][&name], config["config"]["Labels"][&name]);
    }
}

#[test]
fn the_materials_are_those_of_the_program() {
    let out = tempfile::tempdir().unwrap();
    image(out.path());
    let bill = json(&out.path().join(format!("{PROGRAM}.cdx.json")));
    let names: Vec<&str> =
        bill["components"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.len() > 100, "{names:?}");
    assert!(names.contains(&"tokio") && names.contains(&"rustls"));
    // Only tests have it.
    assert!(!names.contains(&"rcgen"));
    // What it is built with only where that is asked for.
    assert!(!names.contains(&"opentelemetry-otlp"));
    let traced = ["gimbal-writer/otlp", "gimbal-kubernetes-discoverer/otlp"].map(str::to_owned);
    build(PROGRAM, &out.path().join("bins"), &traced, out.path()).unwrap();
    let bill = std::fs::read_to_string(out.path().join(format!("{PROGRAM}.cdx.json"))).unwrap();
    assert!(bill.contains("\"opentelemetry-otlp\""));
    if Path::new("/var/lib/dpkg/status").is_file() {
        assert!(names.contains(&"libc6") && names.contains(&"ca-certificates"), "{names:?}");
    }
}

/// A registry in memory, of the project whose tool pushes and checks images.
struct Registry {
    server: Child,
    address: String,
}

impl Registry {
    fn start() -> Self {
        let mut server = Command::new(Asset::Crane.path().unwrap());
        server.args(["registry", "serve", "--address", "127.0.0.1:0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut server = server.spawn().unwrap();
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let port = line.rsplit([' ', ':']).next()?.parse::<u16>().ok()?;
            Some(format!("127.0.0.1:{port}"))
        });
        // It logs each request, and ends where no one reads that.
        std::thread::spawn(move || lines.for_each(drop));
        Self { server, address: address.unwrap() }
    }

    /// Pushes the image, and has it checked: every digest, size and layer, compressed and not.
    fn judge(&self, out: &Path) -> Result<String, String> {
        let name = format!("{}/{PROGRAM}:1", self.address);
        self.crane(&["push", out.join(PROGRAM).to_str().unwrap(), &name])?;
        self.crane(&["validate", "--remote", &name])?;
        Ok(name)
    }

    fn crane(&self, args: &[&str]) -> Result<String, String> {
        let output = Command::new(Asset::Crane.path().unwrap()).args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()).ok_or(said)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.server.kill().and_then(|()| self.server.wait()).expect("the registry ends");
    }
}

#[test]
fn a_registry_takes_an_image_and_finds_it_well_formed() {
    let registry = Registry::start();
    let out = tempfile::tempdir().unwrap();
    let digest = image(out.path());
    let name = registry.judge(out.path()).unwrap();
    assert_eq!(registry.crane(&["digest", &name]).unwrap().trim(), digest);
    // What the test relies on: a byte of a layer that differs is found.
    let (manifest, _) = described(out.path());
    let layer = blob(out.path(), &manifest["layers"][1]);
    let mut content = std::fs::read(&layer).unwrap();
    *content.last_mut().unwrap() ^= 1;
    std::fs::write(&layer, content).unwrap();
    let other = Registry::start();
    other.judge(out.path()).unwrap_err();
}

#[test]
fn the_program_runs_where_there_is_nothing_else() {
    let registry = Registry::start();
    let out = tempfile::tempdir().unwrap();
    image(out.path());
    let name = registry.judge(out.path()).unwrap();
    let (tar, rootfs) = (out.path().join("rootfs.tar"), out.path().join("rootfs"));
    registry.crane(&["export", &name, tar.to_str().unwrap()]).unwrap();
    tar::Archive::new(std::fs::File::open(&tar).unwrap()).unpack(&rootfs).unwrap();
    let mut found = BTreeMap::new();
    files(&rootfs, &mut found, &rootfs);
    let folders = ["lib", "lib64", "etc", "usr/share/doc", PROGRAM, "LICENSE"];
    for path in found.keys() {
        assert!(folders.iter().any(|folder| path.starts_with(folder)), "{}", path.display());
    }
    assert!(found.contains_key(Path::new("etc/ssl/certs/ca-certificates.crt")));
    let mut run = Command::new("chroot");
    run.args(["--userspec=65532:65532"]).arg(&rootfs).args([&format!("/{PROGRAM}"), "/etc/nsswitch.conf"]);
    match run.output().unwrap() {
        ran if ran.status.success() => assert_eq!(ran.stdout, b"hosts: files dns\n"),
        ran => {
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert!(said.contains("Operation not permitted"), "{said}");
            eprintln!("SKIPPED: only root may start a program in another root folder");
        }
    }
}
