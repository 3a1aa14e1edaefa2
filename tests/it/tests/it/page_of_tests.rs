//! `tests/README.md` says where what is tested.

use std::path::{Path, PathBuf};

#[test]
fn the_page_of_tests_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut code = String::new();
    for folder in ["tests", "crates", "services"] {
        read(&root.join(folder), &mut code);
    }
    let page = std::fs::read_to_string(root.join("tests/README.md")).unwrap();
    let names: Vec<&str> = page.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
    assert!(names.len() > 60, "{}", names.len());
    let missing: Vec<&&str> = names
        .iter()
        .filter(|name| {
            let function = name.rsplit("::").next().unwrap();
            !code.contains(&format!("fn {function}("))
        })
        .collect();
    assert_eq!(missing, [&""; 0]);
}

fn read(folder: &Path, code: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        if path.is_dir() {
            read(&path, code);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            code.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}
