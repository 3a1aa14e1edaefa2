//! What a service's refusal of a change means, by its status and words. Pure.
//!
//! The words are those of the services' own sources: Octavia's `octavia/common/exceptions.py`
//! (<https://opendev.org/openstack/octavia/src/branch/master/octavia/common/exceptions.py>) and neutron-lib's
//! `neutron_lib/exceptions` (<https://opendev.org/openstack/neutron-lib/src/branch/master/neutron_lib/exceptions>). Each rule
//! names the exception that it recognizes. Nearly all of them were answered by the real services, too, and
//! `tests/openstack/recorded/mutations` has the answers; "from source" says that no test has made a service say it.

/// Why a service refused a change, as far as callers act differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Complaint {
    /// A change of the object, or of its load balancer, is still in progress. Wait until it ends.
    Immutable,
    /// The load balancer is in a `PENDING_*` state. Wait until it ends.
    InvalidState,
    /// Such an object exists already. Look it up.
    Duplicate,
    /// Another object uses this one. Remove the other one first.
    InUse,
    /// An L7 policy redirects to the pool. Remove the policy first.
    PoolInUseByPolicy,
    /// A quota is used up.
    Quota {
        /// The resources, in the service's words.
        resource: String,
    },
    /// No address is left in a subnet, or in an external network.
    Exhausted {
        /// The service's words.
        words: String,
    },
    /// No router leads from a port's subnet to the external network of a floating IP.
    Unreachable {
        /// The service's words.
        words: String,
    },
    /// The service is busy with the project, for all that it is asked to make there. Other projects are not concerned.
    ProjectBusy,
    /// The service is busy, or limits the rate of calls. Try again after the refusal's `Retry-After`, if it has one.
    Busy,
    /// The provider cannot do this.
    Unsupported {
        /// The provider's words.
        what: String,
    },
    /// The request is invalid. It stays invalid until it is changed.
    Validation {
        /// The service's words.
        detail: String,
    },
    /// The object has changed since it was read (`If-Match`).
    PreconditionFailed,
}

/// A refusal with `status` whose message contains `words` means `complaint`.
struct Rule {
    status: u16,
    words: &'static str,
    complaint: fn(&str) -> Complaint,
}

const fn rule(status: u16, words: &'static str, complaint: fn(&str) -> Complaint) -> Rule {
    Rule { status, words, complaint }
}

/// The first rule that fits decides. Empty words fit every message.
const RULES: &[Rule] = &[
    // Octavia: ImmutableObject, "%(resource)s %(id)s is immutable and cannot be updated."
    rule(409, "is immutable and cannot be updated", |_| Complaint::Immutable),
    // Octavia: LBPendingStateError, "Invalid state %(state)s of loadbalancer resource %(id)s"
    rule(409, "Invalid state", |_| Complaint::InvalidState),
    // Octavia: PoolInUseByL7Policy, "Pool %(id)s is in use by L7 policy %(l7policy_id)s"
    rule(409, "is in use by L7 policy", |_| Complaint::PoolInUseByPolicy),
    // Octavia: DuplicateListenerEntry, DuplicateMemberEntry ("Another member on this pool is already using ip ..")
    rule(409, "Another Listener on this Load Balancer", |_| Complaint::Duplicate),
    rule(409, "Another member on this pool", |_| Complaint::Duplicate),
    // Octavia: DuplicateHealthMonitor
    rule(409, "This pool already has a health monitor", |_| Complaint::Duplicate),
    // Octavia: DuplicatePoolEntry; from source
    rule(409, "This listener already has a default pool", |_| Complaint::Duplicate),
    // Octavia: IDAlreadyExists, RecordAlreadyExists; from source
    rule(409, "Already an entity with that specified id", |_| Complaint::Duplicate),
    // Neutron: SecurityGroupRuleExists ("Security group rule already exists. Rule id is .."); Octavia: RecordAlreadyExists, from
    // source
    rule(409, "already exists", |_| Complaint::Duplicate),
    // Neutron: OverQuota, "Quota exceeded for resources: %(overs)s."
    rule(409, "Quota exceeded for resources:", |words| Complaint::Quota { resource: after_colon(words) }),
    // Octavia: QuotaException, "Quota has been met for resources: %(resource)s"
    rule(403, "Quota has been met for resources:", |words| Complaint::Quota { resource: after_colon(words) }),
    // Neutron: IpAddressGenerationFailure, "No more IP addresses available on network %(net_id)s."
    rule(409, "No more IP addresses available on network", |words| Complaint::Exhausted { words: words.to_owned() }),
    // Neutron: ExternalIpAddressExhausted, "Unable to find any IP address on external network %(net_id)s."
    rule(400, "Unable to find any IP address on external", |words| Complaint::Exhausted { words: words.to_owned() }),
    // Neutron: ExternalGatewayForFloatingIPNotFound, "External network %(external_network_id)s is not reachable from subnet ..."
    rule(404, "is not reachable from subnet", |words| Complaint::Unreachable { words: words.to_owned() }),
    // Octavia: ObjectInUse, "%(object)s %(id)s is in use and cannot be modified."; from source
    rule(409, "is in use and cannot be modified", |_| Complaint::InUse),
    // Octavia: VIPAddressConflict, "The VIP IP address is already in use: %(msg)s"; from source
    rule(409, "is already in use", |_| Complaint::InUse),
    // Neutron: SubnetInUse, and from source NetworkInUse, PortInUse ("Unable to complete operation on port ..")
    rule(409, "Unable to complete operation on", |_| Complaint::InUse),
    // Neutron: SecurityGroupInUse, "Security Group %(id)s in use."; InUse, "The resource is in use.", from source
    rule(409, " in use.", |_| Complaint::InUse),
    // Neutron: IpAddressAlreadyAllocated, "IP address %(ip)s already allocated in subnet %(subnet_id)s"
    rule(409, "already allocated in subnet", |_| Complaint::InUse),
    // Neutron: RevisionNumberConstraintFailed
    rule(412, "", |_| Complaint::PreconditionFailed),
    // Octavia: ProviderNotImplementedError, ProviderUnsupportedOptionError
    rule(501, "", |words| Complaint::Unsupported { what: words.to_owned() }),
    // Octavia: ProjectBusyException, "Project busy.  Unable to lock the project.  Please try again."
    rule(503, "Project busy", |_| Complaint::ProjectBusy),
    // From source, as is 429 below: what is in front of the services answers so.
    rule(503, "", |_| Complaint::Busy),
    rule(429, "", |_| Complaint::Busy),
    // Octavia: ValidationException, InvalidOption and all others with 400; Neutron: BadRequest and its kinds
    rule(400, "", |words| Complaint::Validation { detail: words.to_owned() }),
];

/// Returns what a refusal with `status` and the service's own `words` means, or `None` for a refusal that callers handle by
/// its [`Error`](crate::Error) alone: no permission, or no such object.
pub(crate) fn complaint(status: u16, words: &str) -> Option<Complaint> {
    RULES.iter().find(|rule| rule.status == status && words.contains(rule.words)).map(|rule| (rule.complaint)(words))
}

/// Returns whether these words, with status 500 or 501, report that the provider's driver failed, or that the node of Octavia which
/// answers has none: that says nothing about what the provider can do. Octavia: `ProviderDriverError`, "Provider '%(prov)s' reports
/// error: %(user_msg)s", and `ProviderNotFound`, "Provider '%(prov)s' was not found."
pub(crate) fn is_provider_failure(words: &str) -> bool {
    let said = words.strip_prefix("Provider '").and_then(|rest| rest.split_once("' "));
    said.is_some_and(|(_, said)| said.starts_with("reports error:") || said == "was not found.")
}

fn after_colon(words: &str) -> String {
    words.split_once(": ").map_or(words, |(_, resource)| resource).trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXHAUSTED: &str = "No more IP addresses available on network 0f5e.";
    const EXHAUSTED_POOL: &str = "Unable to find any IP address on external network 77aa.";
    const UNREACHABLE: &str = "External network 77aa is not reachable from subnet 88.  Therefore, cannot associate Port 1 \
        with a Floating IP.";

    #[test]
    fn refusals_of_octavia_and_neutron() {
        let quota = |resource: &str| Some(Complaint::Quota { resource: resource.into() });
        for (status, words, expected) in [
            (409, "Load Balancer 5a49 is immutable and cannot be updated.", Some(Complaint::Immutable)),
            (409, "Invalid state PENDING_UPDATE of loadbalancer resource 5a49", Some(Complaint::InvalidState)),
            (409, "Pool 29e3 is in use by L7 policy 0e8a", Some(Complaint::PoolInUseByPolicy)),
            (
                409,
                "Another Listener on this Load Balancer is already using protocol_port 80",
                Some(Complaint::Duplicate),
            ),
            (409, "Another member on this pool is already using ip 10.0.0.1 on port 80", Some(Complaint::Duplicate)),
            (409, "This pool already has a health monitor", Some(Complaint::Duplicate)),
            (409, "This listener already has a default pool", Some(Complaint::Duplicate)),
            (409, "Already an entity with that specified id.", Some(Complaint::Duplicate)),
            (409, "Security group rule already exists. Rule id is 77aa.", Some(Complaint::Duplicate)),
            (409, "Quota exceeded for resources: ['port'].", quota("['port']")),
            (403, "Quota has been met for resources: Load Balancer", quota("Load Balancer")),
            (403, "Policy does not allow this request to be performed.", None),
            (409, "Certificate container 1 is in use and cannot be modified.", Some(Complaint::InUse)),
            (409, "The VIP IP address is already in use: 10.0.0.4", Some(Complaint::InUse)),
            (409, "Unable to complete operation on port 1 for network 2. Port already has..", Some(Complaint::InUse)),
            (409, "Security Group 7d3f in use.", Some(Complaint::InUse)),
            (409, "IP address 10.0.0.4 already allocated in subnet 88", Some(Complaint::InUse)),
            (412, "Constrained to 3, but current revision is 4", Some(Complaint::PreconditionFailed)),
            (500, "Internal error", None),
            (
                501,
                "Provider 'ovn' does not support a requested option: allowed_cidrs",
                Some(Complaint::Unsupported {
                    what: "Provider 'ovn' does not support a requested option: allowed_cidrs".into(),
                }),
            ),
            (503, "Project busy.  Unable to lock the project.  Please try again.", Some(Complaint::ProjectBusy)),
            (503, "no idea", Some(Complaint::Busy)),
            (429, "", Some(Complaint::Busy)),
            (
                400,
                "Validation failure: VIP must contain one of: vip_port_id",
                Some(Complaint::Validation {
                    detail: "Validation failure: VIP must contain one of: vip_port_id".into(),
                }),
            ),
            (404, "Pool 29e3 not found.", None),
            (404, "Subnet 88 could not be found.", None),
            (409, EXHAUSTED, Some(Complaint::Exhausted { words: EXHAUSTED.into() })),
            (400, EXHAUSTED_POOL, Some(Complaint::Exhausted { words: EXHAUSTED_POOL.into() })),
            (404, UNREACHABLE, Some(Complaint::Unreachable { words: UNREACHABLE.into() })),
        ] {
            assert_eq!(complaint(status, words), expected, "{status} {words}");
        }
    }
}
