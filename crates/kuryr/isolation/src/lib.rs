//! Who may talk to whom: NetworkPolicies and isolated namespaces as security groups.
//!
//! ```text
//!   Pods, namespaces, nodes,   +-------------+            groups: rules of each policy, node and Service
//!   NetworkPolicies,        -->| PolicyIndex |--drain-->  Pods: the groups that the port of each carries
//!   Services with amphorae     +-------------+            clients: who may connect to each listener
//!                                                         findings: what could not be read
//! ```
//!
//! **Who uses it.** kuryr-controller, whose index task applies what its watches bring, and drains. Of each [`GroupName::Policy`] it
//! writes a KuryrNetworkPolicy of the policy's name, with the rules as `ingressSgRules` and `egressSgRules`, and of the other groups
//! one that it names itself; `remote_group` is the key of a [`RuleRemote::Group`]. The groups of a Pod are for its KuryrPort, the
//! clients of a Service for its KuryrLoadBalancer, and findings for Events and conditions.
//! openstack-writer makes security groups of them. It gives each exactly these rules: what Neutron puts into a new group goes first.
//!
//! **What the order of changes means.** [`IsolationChanges`] is a state that fits together. Whoever carries it out makes groups and
//! adds rules before ports carry them, and removes rules and groups when no port does: who was let in before and after is let in
//! meanwhile.
//!
//! **How groups are put together.** Neutron lets a packet through if any rule of any group of a port does, and drops it otherwise. So
//! nothing can be forbidden, only left out:
//!
//! | a port carries | if |
//! |---|---|
//! | [`Base`](GroupName::Base) of its node | always: kubelet's probes pass |
//! | [`OpenIn`](GroupName::OpenIn), [`OpenOut`](GroupName::OpenOut) | nothing isolates the Pod in this direction |
//! | [`Policy`](GroupName::Policy) | the policy selects the Pod |
//! | [`NamedPorts`](GroupName::NamedPorts) | the policy opens ports by name, and the Pod has these numbers for them |
//! | [`Service`](GroupName::Service) | the load balancer of a Service leads to the Pod and hides its clients |
//! | [`Given`](CarriedGroup::Given) | no policy selects the Pod, in place of what opens both directions |
//!
//! **What it leaves to the next parts.** A Pod that is isolated in egress reaches a Service if its rules have the address of the load
//! balancer, which is neither that of a Pod nor in its labels: where clients use cluster IPs that Octavia serves, the Services of the
//! Pods that a rule leads to have to come into it. Addresses arrive with the status of a Pod or are filled in from its KuryrPort.
//!
//! What cannot be read opens nothing, and a policy that cannot be read still isolates: see [`PolicyProblem`].

mod address_set;
mod affected;
mod carried;
mod compile;
mod drain;
mod finding;
mod group;
mod index;
mod known;
mod open_ports;
mod openings;
mod pod;
mod policy;
mod range_set;
mod read_rules;
mod selector;
mod service;
mod shown;
#[cfg(feature = "test-support")]
pub mod test_support;

pub use drain::IsolationChanges;
pub use finding::{FindingSubject, IsolationFinding, PolicyProblem};
pub use group::{AffectedPod, CarriedGroup, GroupName, GroupRule, MOST_RULES, RuleRemote, SecurityGroup};
pub use index::PolicyIndex;
pub use pod::NamedPort;
pub use service::{ListenerClients, ProxiedPort, ProxiedService};
