//! The writer's configuration file: every text is either a configuration or gives an error of one line with place and
//! reason.

use std::path::Path;

use gimbal_writer::config::Config;

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Config::parse(Path::new("writer.yaml"), &text) {
        Ok(config) => {
            let mut names: Vec<_> = config.backends.iter().map(|backend| &backend.name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), config.backends.len(), "two backends of one name");
            for backend in &config.backends {
                let system = backend.policy.namespaces.target("kube-system", None);
                assert!(
                    system.as_ref().map_or(true, |target| !target.starts_with("kube-")),
                    "backend {} may write to {system:?}",
                    backend.name
                );
            }
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.starts_with("writer.yaml"), "{line:?} does not name the file");
            assert!(!line.contains('\n'), "{line:?} is more than one line");
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let example = include_str!("../../../deploy/examples/writer.yaml");
    let small = "backends:\n- {name: a, identity: a.example, namespaces: {map: {x: kube-system}}, mode: quarantine}\n";
    [example, small, "{}"].iter().map(|text| text.as_bytes().to_vec()).collect()
}
