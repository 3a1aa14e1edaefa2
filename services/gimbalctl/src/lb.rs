//! `gimbalctl lb`: the load balancers of Kubernetes clusters in OpenStack.

mod diff;
mod watch;

use clap::{Args, Subcommand};
use gimbal_kuryr_wire::pb;
use gimbal_model::NamespaceName;
use gimbal_runtime::Exit;
use gimbal_transport::Channel;
use pb::admin_service_client::AdminServiceClient;
use pb::inspection_service_client::InspectionServiceClient;
use serde_json::{Value, json};

use crate::clusters;
use crate::output::{OutputForm, print, print_pages};
use crate::refusal::failed;
use crate::services::{ServiceRef, service_name};
use crate::table::columns;
use crate::{Args as ServerArgs, DIAL, connect};

/// What to do with load balancers.
#[derive(Debug, Subcommand)]
pub enum LbCommand {
    /// Checks this client's certificate, openstack-writer and its clusters; exit code 1 if anything fails
    #[command(after_long_help = crate::check::help(crate::check::Asked::OpenstackWriter))]
    Check(crate::check::CheckArgs),
    /// Lists the clusters: their streams, what is pending, left over and held, and trouble
    Clusters,
    /// Lists what clusters want, and what came of it
    List(WhichOnes),
    /// Says why a load balancer is as it is
    Why(WhichEntry),
    /// Prints what openstack-writer would change about a load balancer; exit code 1 if there is anything, 2 if that is not known
    Diff(WhichEntry),
    /// Prints what there is, and then each change
    Watch(WhichOnes),
    /// Takes over a load balancer that Kuryr or the cloud provider made, without a new address
    Adopt {
        /// The Service, as namespace/name
        #[arg(value_parser = service_name)]
        service: ServiceRef,
        /// ID of the load balancer
        #[arg(value_parser = balancer)]
        id: String,
        /// The cluster
        #[arg(long)]
        cluster: String,
        /// Only print what would be changed
        #[arg(long)]
        dry_run: bool,
    },
    /// Releases a removal that the guard holds
    Approve {
        /// The id of what is held, from `gimbalctl lb clusters`
        id: String,
        /// The cluster
        #[arg(long)]
        cluster: String,
    },
    /// Gives the name of a cluster to another one, for instance after it was made anew
    Confirm {
        /// UID of its kube-system namespace, as the cluster's trouble names it (`gimbalctl lb clusters`)
        #[arg(allow_hyphen_values = true)]
        uid: String,
        /// The cluster
        #[arg(long)]
        cluster: String,
    },
    /// Takes our marks off a load balancer that no cluster wants; it stays as it is
    Forget {
        /// ID of the load balancer
        #[arg(value_parser = balancer)]
        id: String,
        /// The cluster
        #[arg(long)]
        cluster: String,
        /// Only print what would be changed
        #[arg(long)]
        dry_run: bool,
    },
    /// Removes everything of a cluster that is in quarantine
    Decommission {
        /// The cluster
        #[arg(long)]
        cluster: String,
        /// Only print what would be removed, and the id for the second call
        #[arg(long, conflicts_with = "id", required_unless_present = "id")]
        dry_run: bool,
        /// The id that the dry run printed
        #[arg(long)]
        id: Option<String>,
    },
}

/// Which one, of which cluster.
#[derive(Debug, Args)]
pub struct WhichEntry {
    /// The Service, as namespace/name; or a router, as namespace/KuryrL7Router:name
    #[arg(value_parser = entry)]
    entry: EntryRef,
    /// The cluster; may be left out with a cluster's own certificate
    #[arg(long, default_value = "", hide_default_value = true)]
    cluster: String,
}

/// Which load balancers.
#[derive(Debug, Args)]
pub struct WhichOnes {
    /// Of this cluster
    #[arg(long, default_value = "", hide_default_value = true)]
    cluster: String,
    /// In this namespace
    #[arg(short, long)]
    namespace: Option<NamespaceName>,
    /// Only those that are not ready
    #[arg(long)]
    trouble: bool,
}

/// A Service's load balancer, or a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRef {
    kind: pb::EntryKind,
    namespace: String,
    name: String,
}

impl EntryRef {
    /// Says that there is no such thing.
    fn missing(&self) -> Exit {
        let Self { kind, namespace, name } = self;
        Exit::Failure(match kind {
            pb::EntryKind::L7Router => format!("there is no router {namespace}/{name}"),
            _ => format!("there is no load balancer for {namespace}/{name}"),
        })
    }
}

impl std::fmt::Display for EntryRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kind, namespace, name } = self;
        let kind = if *kind == pb::EntryKind::L7Router { ROUTER } else { "" };
        write!(f, "{namespace}/{kind}{name}")
    }
}

fn entry(text: &str) -> Result<EntryRef, String> {
    let (kind, text) = match text.split_once(&format!("/{ROUTER}")) {
        Some((namespace, name)) => (pb::EntryKind::L7Router, format!("{namespace}/{name}")),
        None => (pb::EntryKind::LoadBalancer, text.to_owned()),
    };
    service_name(&text).map(|ServiceRef { namespace, name }| EntryRef { kind, namespace, name })
}

fn balancer(text: &str) -> Result<String, String> {
    let is_id = !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    if is_id { Ok(text.to_owned()) } else { Err("write the ID of the load balancer".to_owned()) }
}

/// Carries out a command.
///
/// # Errors
/// The server's refusal, or a connection that breaks.
pub async fn run(command: LbCommand, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    match command {
        // Their caller has done them: their exit codes say whether there was a connection.
        LbCommand::Check(_) | LbCommand::Diff(_) => Ok(()),
        LbCommand::Clusters => clusters::list(channel, output).await,
        LbCommand::Approve { id, cluster } => clusters::approve(cluster, id, channel, output).await,
        LbCommand::Confirm { uid, cluster } => clusters::confirm(cluster, uid, channel, output).await,
        LbCommand::List(which) => list(which, channel, output).await,
        LbCommand::Why(WhichEntry { entry, cluster }) => why(entry, cluster, channel, output).await,
        LbCommand::Watch(which) => watch::watch(which, channel, output).await,
        LbCommand::Adopt { service: ServiceRef { namespace, name }, id, cluster, dry_run } => {
            let request = pb::AdoptRequest { cluster, namespace, name, load_balancer_id: id, dry_run };
            let answer = AdminServiceClient::new(channel).adopt(request).await.map_err(failed)?.into_inner();
            changes(&answer.changes, dry_run, output)
        }
        LbCommand::Forget { id, cluster, dry_run } => {
            let request = pb::ForgetRequest { cluster, load_balancer_id: id, dry_run };
            let answer = AdminServiceClient::new(channel).forget(request).await.map_err(failed)?.into_inner();
            changes(&answer.changes, dry_run, output)
        }
        LbCommand::Decommission { cluster, dry_run, id } => {
            let request = pb::DecommissionRequest { cluster: cluster.clone(), dry_run, id: id.unwrap_or_default() };
            let answer = AdminServiceClient::new(channel).decommission(request).await.map_err(failed)?.into_inner();
            print(&decommissioned(&cluster, &answer, dry_run, output))
        }
    }
}

/// Returns what a removal would remove or removes, and what to do next.
fn decommissioned(cluster: &str, answer: &pb::DecommissionResponse, dry_run: bool, output: OutputForm) -> String {
    if output == OutputForm::Json {
        let changes: Vec<_> = answer.changes.iter().map(change_json).collect();
        return format!("{}\n", json!({"id": answer.id, "objects": answer.objects, "changes": changes}));
    }
    if answer.objects.is_empty() && answer.changes.is_empty() {
        return format!(
            "nothing carries the mark of cluster {cluster}: there is nothing to remove\n\
             next: take the cluster out of the configuration of openstack-writer; while it is there, its controller may be admitted \
             again\n"
        );
    }
    let mut text: String = answer.changes.iter().map(change_lines).collect();
    let count = |(kind, count): (&String, &u64)| format!("{count} {kind}");
    let all = answer.objects.iter().map(count).collect::<Vec<_>>().join(", ");
    text.push_str(&format!("to remove: {}\n", if all.is_empty() { "nothing" } else { &all }));
    let command = format!("gimbalctl lb decommission --cluster {cluster}");
    text.push_str(&match dry_run {
        true => format!("dry run: nothing was changed\nnext: {command} --id {} removes this, and nothing else\n", answer.id),
        false => format!(
            "begun: openstack-writer goes on until all of this is removed, and no one has to wait for it; to stop it, set the mode of \
             cluster {cluster} to admit\n\
             next: {command} --dry-run, again and again, until nothing is left; then take the cluster out of the configuration of \
             openstack-writer\n"
        ),
    });
    text
}

/// Returns a namespace as it is asked for; empty: all.
fn namespace_of(namespace: Option<NamespaceName>) -> String {
    namespace.map(|name| name.to_string()).unwrap_or_default()
}

async fn list(which: WhichOnes, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let mut client = InspectionServiceClient::new(channel);
    let WhichOnes { cluster, namespace, trouble } = which;
    let namespace = namespace_of(namespace);
    print_pages(output, heads(), row, json_of, async |page_token| {
        let (cluster, namespace) = (cluster.clone(), namespace.clone());
        let request =
            pb::ListLoadBalancersRequest { cluster, namespace, only_trouble: trouble, page_size: 0, page_token };
        let page = client.list_load_balancers(request).await.map_err(failed)?.into_inner();
        Ok((page.load_balancers, page.next_page_token))
    })
    .await
}

async fn why(entry: EntryRef, cluster: String, channel: Channel, output: OutputForm) -> Result<(), Exit> {
    let missing = entry.missing();
    let answer = explained(entry, cluster, channel).await?;
    show_why(&answer, output)?;
    // What was printed says what is known; a script has to see that there is no such thing.
    answer.load_balancer.map(drop).ok_or(missing)
}

/// Prints what would be changed about one.
///
/// # Errors
/// Something would be, with exit code 1 as of `kubectl diff`; or that is not known, with exit code 2.
pub async fn difference(which: &WhichEntry, args: &ServerArgs) -> Result<(), Exit> {
    let unknown = |error: Exit| Exit::Usage(error.to_string());
    let WhichEntry { entry, cluster } = which;
    let channel = connect(args, DIAL).await.map_err(unknown)?;
    let answer = explained(entry.clone(), cluster.clone(), channel).await.map_err(unknown)?;
    if answer.load_balancer.is_none() {
        return Err(unknown(entry.missing()));
    }
    let (text, end) = diff::diff(&entry.to_string(), &answer, args.output);
    print(&text)?;
    end
}

async fn explained(entry: EntryRef, cluster: String, channel: Channel) -> Result<pb::ExplainResponse, Exit> {
    let EntryRef { kind, namespace, name } = entry;
    let request = pb::ExplainRequest { cluster, namespace, name, kind: kind.into() };
    Ok(InspectionServiceClient::new(channel).explain(request).await.map_err(failed)?.into_inner())
}

fn show_why(answer: &pb::ExplainResponse, output: OutputForm) -> Result<(), Exit> {
    if output == OutputForm::Json {
        let steps = answer.steps.iter().map(|step| json!({"ageMs": step.age_ms, "step": step.step}));
        let explained = json!({
            "loadBalancer": answer.load_balancer.as_ref().map(json_of),
            "reasons": answer.reasons,
            "steps": steps.collect::<Vec<_>>(),
        });
        return print(&format!("{explained}\n"));
    }
    print(&why_lines(answer))
}

/// Returns an explanation for people.
fn why_lines(answer: &pb::ExplainResponse) -> String {
    let mut text = String::new();
    if let Some(status) = &answer.load_balancer {
        text.push_str(&columns(&[heads(), row(status)]));
    }
    answer.reasons.iter().for_each(|reason| text.push_str(&columns(&[vec![format!("- {reason}")]])));
    let step = |step: &pb::StepTaken| {
        vec![format!("{}.{} s ago", step.age_ms / 1000, step.age_ms % 1000 / 100), step.step.clone()]
    };
    text.push_str(&columns(&answer.steps.iter().map(step).collect::<Vec<_>>()));
    text
}

fn changes(changes: &[pb::PlannedChange], dry_run: bool, output: OutputForm) -> Result<(), Exit> {
    let mut text = String::new();
    for change in changes {
        match output {
            OutputForm::Json => text.push_str(&format!("{}\n", change_json(change))),
            OutputForm::Table => text.push_str(&change_lines(change)),
        }
    }
    if output == OutputForm::Table {
        text.push_str(if dry_run { "dry run: nothing was changed\n" } else { "done\n" });
    }
    print(&text)
}

fn change_json(change: &pb::PlannedChange) -> Value {
    let pb::PlannedChange { verb, kind, id, name, diff } = change;
    json!({"verb": verb, "kind": kind, "id": id, "name": name, "diff": diff})
}

fn change_lines(change: &pb::PlannedChange) -> String {
    let pb::PlannedChange { verb, kind, id, name, diff } = change;
    let mut text = columns(&[vec![verb.clone(), kind.clone(), id.clone(), name.clone()]]);
    diff.iter().for_each(|line| text.push_str(&columns(&[vec![format!("    {line}")]])));
    text
}

fn heads() -> Vec<String> {
    let heads = ["CLUSTER", "SERVICE", "PHASE", "VIP", "FLOATING-IP", "PORTS", "MEMBERS", "ID", "MESSAGE"];
    heads.map(str::to_owned).to_vec()
}

/// How the name of a router begins: load balancers have the names of their Services.
const ROUTER: &str = "KuryrL7Router:";

fn name(key: Option<&pb::EntryKey>) -> String {
    let kind = |key: &pb::EntryKey| if key.kind() == pb::EntryKind::L7Router { ROUTER } else { "" };
    key.map(|key| format!("{}/{}{}", key.namespace, kind(key), key.name)).unwrap_or_default()
}

fn phase(status: &pb::LoadBalancerStatus) -> String {
    status.phase().as_str_name().trim_start_matches("PHASE_").to_lowercase()
}

fn row(status: &pb::LoadBalancerStatus) -> Vec<String> {
    vec![
        status.cluster.clone(),
        name(status.key.as_ref()),
        phase(status),
        status.vip.clone(),
        status.floating_ip.clone(),
        status.listeners.to_string(),
        status.members.to_string(),
        status.id.clone(),
        status.message.clone(),
    ]
}

fn json_of(status: &pb::LoadBalancerStatus) -> Value {
    let condition = |one: &pb::Condition| json!({"type": one.r#type, "reason": one.reason, "message": one.message});
    json!({
        "cluster": status.cluster,
        "service": name(status.key.as_ref()),
        "owner": status.owner,
        "phase": phase(status),
        "generation": status.generation,
        "reportedGeneration": status.reported_generation,
        "deleting": status.deleting,
        "id": status.id,
        "project": status.project,
        "provider": status.provider,
        "vip": status.vip,
        "floatingIp": status.floating_ip,
        "listeners": status.listeners,
        "members": status.members,
        "message": status.message,
        "conditions": status.conditions.iter().map(condition).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They quote answers of others.
    #[test]
    fn reasons_are_shown_without_control_characters() {
        let reasons = vec!["Octavia says a\u{1b}[2J\r\nb".to_owned(), "c".to_owned()];
        let answer = pb::ExplainResponse { reasons, ..pb::ExplainResponse::default() };
        assert_eq!(why_lines(&answer), "- Octavia says a[2Jb\n- c\n");
    }

    /// Whoever reads it knows what to do next.
    #[test]
    fn what_a_removal_says() {
        let change =
            pb::PlannedChange { verb: "delete".into(), kind: "pool".into(), id: "1".into(), ..Default::default() };
        let objects = [("pool".to_owned(), 1)].into();
        let some = pb::DecommissionResponse { id: "prod1-1-0a".into(), objects, changes: vec![change] };
        let none = pb::DecommissionResponse { id: "prod1-0-0b".into(), ..Default::default() };
        let say = |answer, dry_run| decommissioned("prod1", answer, dry_run, OutputForm::Table);
        let preview = say(&some, true);
        assert!(preview.starts_with("delete  pool  1\nto remove: 1 pool\ndry run: nothing was changed\n"), "{preview}");
        assert!(preview.contains("next: gimbalctl lb decommission --cluster prod1 --id prod1-1-0a "), "{preview}");
        let begun = say(&some, false);
        assert!(begun.contains("next: gimbalctl lb decommission --cluster prod1 --dry-run, "), "{begun}");
        assert!(begun.contains("to stop it, set the mode of cluster prod1 to admit"), "{begun}");
        for dry_run in [true, false] {
            let left = say(&none, dry_run);
            assert!(left.starts_with("nothing carries the mark of cluster prod1: "), "{left}");
            assert!(
                left.contains("next: take the cluster out of the configuration") && !left.contains("--id"),
                "{left}"
            );
        }
    }

    /// What is shown of it can be asked for.
    #[test]
    fn a_router_has_its_kind_before_its_name() {
        let key = pb::EntryKey { kind: 2, namespace: "gimbal".into(), name: "router".into() };
        let shown = name(Some(&key));
        assert_eq!(shown, "gimbal/KuryrL7Router:router");
        let (namespace, name) = ("gimbal".to_owned(), "router".to_owned());
        assert_eq!(entry(&shown), Ok(EntryRef { kind: pb::EntryKind::L7Router, namespace, name }));
        let EntryRef { kind, namespace, name } = entry("shop/web").unwrap();
        assert_eq!((kind, &*namespace, &*name), (pb::EntryKind::LoadBalancer, "shop", "web"));
        for text in [&*shown, "shop/web"] {
            assert_eq!(entry(text).unwrap().to_string(), text);
        }
        for bad in ["web", "shop/", "shop/KuryrL7Router:", "shop/KuryrPort:web", "a/b/KuryrL7Router:web"] {
            assert!(entry(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_load_balancer_as_a_row_and_as_json() {
        let status = pb::LoadBalancerStatus {
            cluster: "prod1".into(),
            key: Some(pb::EntryKey { kind: 1, namespace: "shop".into(), name: "web".into() }),
            phase: pb::Phase::Ready.into(),
            vip: "10.0.0.9".into(),
            listeners: 2,
            members: 3,
            id: "1234".into(),
            ..pb::LoadBalancerStatus::default()
        };
        let shown = columns(&[heads(), row(&status)]);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0].split_whitespace().count(), 9);
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>(),
            ["prod1", "shop/web", "ready", "10.0.0.9", "2", "3", "1234"]
        );
        let json = json_of(&status);
        assert_eq!(
            (&json["service"], &json["phase"], &json["members"]),
            (&json!("shop/web"), &json!("ready"), &json!(3))
        );
    }
}
