//! What would be offered of a KuryrLoadBalancer if the writer had said what the cloud is like, in sentences.

use gimbal_kuryr_crd::KuryrLoadBalancer;
use gimbal_kuryr_model::{ApiVersion, CloudFacts, DesiredMember, PoolId};
use gimbal_kuryr_translate::desired;

/// The most members of a port that are named.
const NAMED: usize = 10;
/// What stands for the project and the subnet, which the writer says.
const UNKNOWN: &str = "unknown";
/// An Octavia that can do everything: what this cloud's cannot do is not known.
const ANY_VERSION: ApiVersion = ApiVersion { major: u16::MAX, minor: 0 };

/// Says each port with its members.
pub(crate) fn foreseen(balancer: &KuryrLoadBalancer) -> Vec<String> {
    let mut object = balancer.clone();
    object.spec.project_id.get_or_insert_with(|| UNKNOWN.into());
    object.spec.subnet_id.get_or_insert_with(|| UNKNOWN.into());
    let facts = CloudFacts { api_version: ANY_VERSION, ..CloudFacts::default() };
    let streamed = match desired(&object, &facts) {
        Ok(streamed) => streamed,
        Err(reason) => return vec![format!("Once it has, this is not offered: {reason}.")],
    };
    let all = streamed.wanted.members.as_slice();
    let of_port = streamed.wanted.header.listeners.iter().map(|listener| {
        let (id, pool) = (listener.id, PoolId::from(listener.id));
        let members: Vec<&DesiredMember> = all.iter().filter(|member| member.id.pool == pool).collect();
        format!("Once it has, {} port {} is offered with {}.", id.protocol.as_str(), id.port, words(&members))
    });
    let left_out = streamed.findings.iter().map(|finding| format!("And this is left out: {finding}."));
    of_port.chain(left_out).collect()
}

fn words(members: &[&DesiredMember]) -> String {
    let named: Vec<String> = members.iter().take(NAMED).map(|member| address(member)).collect();
    let count = match members.len() {
        0 => return "no member".to_owned(),
        1 => "1 member".to_owned(),
        count => format!("{count} members"),
    };
    let more = match members.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{count}: {}{more}", named.join(", "))
}

fn address(member: &DesiredMember) -> String {
    std::net::SocketAddr::new(member.id.address, member.id.port).to_string()
}
