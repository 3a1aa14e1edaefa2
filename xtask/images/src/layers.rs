//! The files of an image, in two layers: what all programs share, and the program.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

use crate::root;

/// Whom programs run as. The charts say the same number.
pub const USER: u32 = 65532;

/// Certificates of public authorities, for clouds whose endpoints have one of those.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A layer, before and after compression.
pub struct Layer {
    pub tar: Vec<u8>,
    pub gzip: Vec<u8>,
    /// What made it, for the image's history.
    pub what: String,
}

/// A file by its path in the image, without `/` at the start: its mode and content.
type Files = BTreeMap<String, (u32, Vec<u8>)>;

/// Returns what all programs need: libraries, users, names, authorities, and licences.
pub fn base(libraries: &BTreeSet<PathBuf>) -> anyhow::Result<Layer> {
    let mut files = Files::new();
    let mut add = |path: &str, mode, content: Vec<u8>| {
        drop(files.insert(path.trim_start_matches('/').to_owned(), (mode, content)))
    };
    for library in libraries {
        // A link is followed: the image has the library under the name by which the program asks for it.
        add(&library.to_string_lossy(), 0o755, read(library)?);
    }
    add(AUTHORITIES, 0o644, read(Path::new(AUTHORITIES)).context("install the package ca-certificates")?);
    add("etc/passwd", 0o644, format!("root:x:0:0::/:/nologin\ngimbal:x:{USER}:{USER}::/:/nologin\n").into_bytes());
    add("etc/group", 0o644, format!("root:x:0:\ngimbal:x:{USER}:\n").into_bytes());
    add("etc/nsswitch.conf", 0o644, b"hosts: files dns\n".to_vec());
    // Their licences ask that they go along.
    for package in ["libc6", "libgcc-s1", "ca-certificates"] {
        let file = format!("/usr/share/doc/{package}/copyright");
        if Path::new(&file).is_file() {
            add(&file, 0o644, read(Path::new(&file))?);
        }
    }
    layer(&files, "shared libraries, authorities, users".to_owned())
}

/// Returns the program's own layer.
pub fn own(program: &str, binary: &Path) -> anyhow::Result<Layer> {
    let licence = read(&root().join("LICENSE"))?;
    let files = Files::from([(program.to_owned(), (0o755, read(binary)?)), ("LICENSE".to_owned(), (0o644, licence))]);
    layer(&files, program.to_owned())
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Packs files, with the folders above them. Everything belongs to root and has no time, so that the bytes depend on the content
/// only.
fn layer(files: &Files, what: String) -> anyhow::Result<Layer> {
    let folders: BTreeSet<String> = files
        .keys()
        .flat_map(|path| Path::new(path).ancestors().skip(1).map(|folder| format!("{}/", folder.to_string_lossy())))
        .filter(|folder| folder != "/")
        .collect();
    let mut builder = tar::Builder::new(Vec::new());
    for folder in &folders {
        let mut header = header(EntryType::Directory, 0o755, 0);
        builder.append_data(&mut header, folder, &[][..])?;
    }
    for (path, (mode, content)) in files {
        let mut header = header(EntryType::Regular, *mode, content.len() as u64);
        builder.append_data(&mut header, path, &content[..])?;
    }
    let tar = builder.into_inner()?;
    let mut gzip = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::new(6));
    gzip.write_all(&tar)?;
    Ok(Layer { gzip: gzip.finish()?, tar, what })
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}
