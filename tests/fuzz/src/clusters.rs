//! openstack-writer's configuration file: every text is either a configuration or gives an error of one line with place and
//! reason.

use std::collections::BTreeSet;
use std::path::Path;

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match gimbal_openstack_writer::read_config(Path::new("clusters.yaml"), &text) {
        Ok(names) => {
            let different: BTreeSet<&String> = names.iter().collect();
            assert_eq!(different.len(), names.len(), "two clusters of one name");
        }
        Err(line) => {
            assert!(line.starts_with("clusters.yaml"), "{line:?} does not name the file");
            assert!(!line.contains('\n'), "{line:?} is more than one line");
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let example = include_str!("../../../deploy/examples/openstack-writer.yaml");
    let small = "clusters:\n- {name: a, identity: a.example, neutron_defaults: {project: p}, mode: quarantine}\n";
    [example, small, "{}"].iter().map(|text| text.as_bytes().to_vec()).collect()
}
