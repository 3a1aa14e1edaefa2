//! `tests/README.md` says where what is tested.

use std::path::{Path, PathBuf};

/// A file of code.
struct File {
    /// The last name of the module that it is.
    module: String,
    code: String,
}

#[test]
fn the_page_of_tests_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["tests", "crates", "services"] {
        read(&root.join(folder), &mut files);
    }
    let page = std::fs::read_to_string(root.join("tests/README.md")).unwrap();
    let names: Vec<&str> = page.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
    assert!(names.len() > 60, "{}", names.len());
    let is_there = |name: &&&str| {
        let mut words = name.rsplit("::");
        let (function, module) = (words.next().unwrap(), words.next().unwrap());
        files.iter().any(|file| file.module == module && file.code.contains(&format!("fn {function}(")))
    };
    let missing: Vec<&&str> = names.iter().filter(|name| !is_there(name)).collect();
    assert_eq!(missing, [&""; 0]);
}

fn read(folder: &Path, files: &mut Vec<File>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            read(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let code = std::fs::read_to_string(&path).unwrap();
            let own = path.file_stem().unwrap();
            let of = if own == "mod" { folder.file_name().unwrap() } else { own };
            files.push(File { module: of.to_str().unwrap().to_owned(), code });
        }
    }
}
