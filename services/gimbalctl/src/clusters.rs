//! The clusters of openstack-writer, and what the guard holds of them.

use gimbal_kuryr_wire::pb;
use gimbal_runtime::Exit;
use gimbal_transport::Channel;
use pb::admin_service_client::AdminServiceClient;
use pb::inspection_service_client::InspectionServiceClient;
use serde_json::{Value, json};

use crate::output::{OutputForm, age, print};
use crate::refusal::failed;
use crate::table::columns;

/// Lists the clusters.
///
/// # Errors
/// The server's refusal, or a connection that breaks.
pub async fn list(channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let answer = InspectionServiceClient::new(channel).list_clusters(pb::ListClustersRequest {}).await;
    let clusters = answer.map_err(failed)?.into_inner().clusters;
    print(&match output {
        OutputForm::Table => table(&clusters),
        OutputForm::Json => clusters.iter().map(|cluster| format!("{}\n", json_of(cluster))).collect(),
    })
}

/// Releases a removal that the guard holds.
///
/// # Errors
/// As [`list`].
pub async fn approve(cluster: String, id: String, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let request = pb::ApproveRequest { cluster, id };
    let released = AdminServiceClient::new(channel).approve(request).await.map_err(failed)?.into_inner();
    let pb::ApproveResponse { load_balancers, members } = released;
    print(&match output {
        OutputForm::Table => {
            format!("released: {load_balancers} load balancers and {members} members are removed now\n")
        }
        OutputForm::Json => format!("{}\n", json!({"loadBalancers": load_balancers, "members": members})),
    })
}

/// Gives the name of a cluster to another one.
///
/// # Errors
/// As [`list`].
pub async fn confirm(cluster: String, uid: String, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let request = pb::ConfirmClusterRequest { cluster: cluster.clone(), cluster_uid: uid.clone() };
    let answer = AdminServiceClient::new(channel).confirm_cluster(request).await.map_err(failed)?.into_inner();
    print(&confirmed(&cluster, &uid, &answer, output))
}

fn confirmed(cluster: &str, uid: &str, answer: &pb::ConfirmClusterResponse, output: OutputForm) -> String {
    let pb::ConfirmClusterResponse { previous, configuration } = answer;
    if output == OutputForm::Json {
        return format!(
            "{}\n",
            json!({"cluster": cluster, "uid": uid, "previous": previous, "configuration": configuration})
        );
    }
    let before = if previous.is_empty() { String::new() } else { format!(", and no longer {previous}") };
    columns(&[
        vec![format!("cluster {cluster} is the one with UID {uid} from now on{before}")],
        vec![format!("next: write {configuration} into the configuration of openstack-writer, for its next start")],
    ])
}

fn table(clusters: &[pb::Cluster]) -> String {
    let heads = ["CLUSTER", "STREAM", "WANTED", "PENDING", "REJECTED", "ORPHANS", "HELD", "TROUBLE"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(clusters.iter().map(row));
    let mut text = columns(&rows);
    for cluster in clusters {
        let name = &cluster.name;
        if let Some(removal) = &cluster.decommission {
            let (id, owners) = (&removal.id, removal.owners);
            let line =
                format!("{name}: everything of it is being removed ({id}); {owners} owners still have something");
            text.push_str(&columns(&[vec![line]]));
        }
        for pb::HeldRemoval { id, message, held_ms, .. } in &cluster.held {
            let line = format!("{name}: held for {}: {message}", age(Some(*held_ms)));
            text.push_str(&columns(&[vec![line], vec![format!("    gimbalctl lb approve {id} --cluster {name}")]]));
        }
    }
    text
}

fn row(cluster: &pb::Cluster) -> Vec<String> {
    let stream = match (cluster.connected, cluster.complete) {
        (false, _) => "none",
        (true, false) => "incomplete",
        (true, true) => "complete",
    };
    let held: u64 = cluster.held.iter().map(|held| held.load_balancers + held.members).sum();
    let counts = [cluster.load_balancers, cluster.pending, cluster.rejected, cluster.orphans, held];
    let mut row = vec![cluster.name.clone(), stream.to_owned()];
    row.extend(counts.map(|count| count.to_string()));
    row.push(cluster.trouble.clone());
    row
}

fn json_of(cluster: &pb::Cluster) -> Value {
    let held = |held: &pb::HeldRemoval| {
        let pb::HeldRemoval { id, load_balancers, members, message, held_ms } = held;
        json!({"id": id, "loadBalancers": load_balancers, "members": members, "message": message, "heldMs": held_ms})
    };
    let removal = |removal: &pb::DecommissionProgress| json!({"id": removal.id, "owners": removal.owners});
    json!({
        "cluster": cluster.name,
        "uid": cluster.cluster_uid,
        "connected": cluster.connected,
        "complete": cluster.complete,
        "lastHeardMs": cluster.last_heard_ms,
        "agentVersion": cluster.agent_version,
        "clockAheadMs": cluster.clock_ahead_ms,
        "loadBalancers": cluster.load_balancers,
        "members": cluster.members,
        "pending": cluster.pending,
        "rejected": cluster.rejected,
        "orphans": cluster.orphans,
        "held": cluster.held.iter().map(held).collect::<Vec<_>>(),
        "trouble": cluster.trouble,
        "decommission": cluster.decommission.as_ref().map(removal),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_says_what_to_write_into_the_configuration() {
        let answer = |previous: &str, configuration: &str| {
            let (previous, configuration) = (previous.to_owned(), configuration.to_owned());
            confirmed("prod1", "2", &pb::ConfirmClusterResponse { previous, configuration }, OutputForm::Table)
        };
        assert_eq!(
            answer("1", "clusterUid: 2, and 1 in formerUids"),
            "cluster prod1 is the one with UID 2 from now on, and no longer 1\n\
             next: write clusterUid: 2, and 1 in formerUids into the configuration of openstack-writer, for its next start\n"
        );
        assert!(answer("", "clusterUid: 2").starts_with("cluster prod1 is the one with UID 2 from now on\n"));
    }

    #[test]
    fn what_is_held_comes_with_the_command_that_releases_it() {
        let held = pb::HeldRemoval {
            id: "m-1".into(),
            members: 7,
            message: "7 of 8 members would go at once".into(),
            held_ms: 61_500,
            ..pb::HeldRemoval::default()
        };
        let one = pb::Cluster {
            name: "prod1".into(),
            connected: true,
            complete: true,
            load_balancers: 3,
            held: vec![held],
            ..pb::Cluster::default()
        };
        let trouble = "the cloud was not read yet".to_owned();
        let decommission = Some(pb::DecommissionProgress { id: "prod2-1".into(), owners: 4 });
        let other = pb::Cluster { name: "prod2".into(), trouble, decommission, ..pb::Cluster::default() };
        assert_eq!(
            table(&[one.clone(), other]),
            "CLUSTER  STREAM    WANTED  PENDING  REJECTED  ORPHANS  HELD  TROUBLE\n\
             prod1    complete  3       0        0         0        7\n\
             prod2    none      0       0        0         0        0     the cloud was not read yet\n\
             prod1: held for 61s: 7 of 8 members would go at once\n    \
             gimbalctl lb approve m-1 --cluster prod1\n\
             prod2: everything of it is being removed (prod2-1); 4 owners still have something\n"
        );
        let json = json_of(&one);
        assert_eq!((&json["held"][0]["id"], &json["held"][0]["members"]), (&json!("m-1"), &json!(7)));
    }
}
