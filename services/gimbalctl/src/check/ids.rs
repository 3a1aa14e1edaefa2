//! The IDs of the checks. Scripts rely on them: none gets another meaning.

use super::Asked;

/// The checks of this client and of the server, with what each looks at.
const OF_BOTH: &[(&str, &str)] = &[
    ("client.certificate", "when the certificate of this client ends"),
    ("client.authorities", "when the authorities in --tls-ca end"),
    ("client.chain", "whether a server would accept that certificate: its key, signatures and purpose"),
    ("client.identity", "who this client is to the server: an administrator, a backend or unknown"),
    ("server.reached", "whether the server takes connections"),
    ("server.chain", "whether its certificate is signed by --tls-ca and has the name of --server"),
    ("server.certificate", "when its certificates end"),
    ("server.answers", "whether it answers"),
    ("server.version", "whether it and gimbalctl are at most a release apart"),
    ("server.clock", "whether its clock agrees with that of this machine"),
];

/// The checks of a writer, or a discoverer, and of each backend.
const OF_WRITER: &[(&str, &str)] = &[
    ("server.rights", "whether it has the rights in its Kubernetes cluster that it needs"),
    ("writer.leads", "whether it leads: a standby knows no streams"),
    ("backend", "stands for the checks of backends where none could be made"),
    ("backend.admitted", "whether the configuration lists and admits the backend"),
    ("backend.orphans", "whether objects are left of a backend that nothing lists"),
    ("backend.connected", "whether its agent has a stream"),
    ("backend.identity", "whether agents that call themselves by its name have its certificate"),
    ("backend.certificate", "when the certificate of that stream ends"),
    ("backend.version", "whether its agent and the writer are at most a release apart"),
    ("backend.clock", "whether its agent's clock agrees with the writer's"),
    ("backend.source", "whether its agent hears its source"),
    ("backend.rights", "whether its agent may read all of its source"),
    ("backend.complete", "whether a snapshot of everything has ended"),
    ("backend.held", "whether the guard holds a removal"),
    ("backend.rejected", "whether all of its Services are published"),
    ("backend.names", "whether its names in the Gimbal cluster are its own"),
    ("backend.trouble", "what the writer says is wrong with it"),
];

/// The checks of each cluster of an openstack-writer.
const OF_OPENSTACK_WRITER: &[(&str, &str)] = &[
    ("cluster", "stands for the checks of clusters where none could be made"),
    ("cluster.admitted", "whether the cluster is being removed"),
    ("cluster.connected", "whether its controller has a stream"),
    ("cluster.version", "whether its controller and the writer are at most a release apart"),
    ("cluster.clock", "whether its controller's clock agrees with the writer's"),
    ("cluster.complete", "whether a snapshot of everything has ended"),
    ("cluster.held", "whether the guard holds a removal"),
    ("cluster.rejected", "whether all of its load balancers are tried"),
    ("cluster.served", "whether they are as they are wanted"),
    ("cluster.orphans", "whether OpenStack has objects with its mark that nothing wants"),
    ("cluster.trouble", "what the writer says is wrong with it"),
];

/// Returns the checks of one kind of server.
fn checks(asked: Asked) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    OF_BOTH.iter().chain(match asked {
        Asked::Writer => OF_WRITER,
        Asked::OpenstackWriter => OF_OPENSTACK_WRITER,
    })
}

/// Whether there is such a check.
pub fn is_known(id: &str) -> bool {
    [Asked::Writer, Asked::OpenstackWriter].into_iter().flat_map(checks).any(|(known, _)| *known == id)
}

/// Returns the list of checks, for --help and the manual page.
pub fn help(asked: Asked) -> String {
    let lines = checks(asked).map(|(id, what)| format!("  {id:<20} {what}\n"));
    format!(
        "Checks:\n{}\nok: as it should be. warn: it works, and a person should know. fail: a person must do something. skip: it could \
         not be looked at.",
        lines.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_check_has_a_row_in_the_documentation_and_no_other_does() {
        let page = include_str!("../../../../docs/troubleshooting.md");
        let row = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
        let table = page.split("<a id=\"checks\"></a>").nth(1).expect("the page has a place for the checks");
        let rows: BTreeSet<String> = table.split("\n## ").next().unwrap_or_default().lines().filter_map(row).collect();
        let all = [Asked::Writer, Asked::OpenstackWriter].into_iter().flat_map(checks);
        assert_eq!(rows, all.map(|(id, _)| (*id).to_owned()).collect());
    }

    #[test]
    fn help_names_the_checks_of_its_server() {
        let (writer, openstack) = (help(Asked::Writer), help(Asked::OpenstackWriter));
        assert!(writer.contains("  backend.held  ") && !writer.contains("cluster."), "{writer}");
        assert!(openstack.contains("  cluster.held  ") && !openstack.contains("backend."), "{openstack}");
        assert!([&writer, &openstack].iter().all(|text| text.contains("  client.chain  ")));
    }
}
