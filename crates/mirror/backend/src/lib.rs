//! A backend as people write it: its identity and its policy, in the writer's configuration file or as an object of the kind
//! `Backend`.
//!
//! Both have the same sections, so that one can be copied into the other: [`BackendSpec`] is what each of them becomes, and
//! [`BackendSpec::policy`] what the writer follows. The definition in `deploy/crds` is
//! [generated](gimbal_kubernetes_definition::yaml) from these types.

mod notices;
mod objects;
mod orders;
mod removal;
mod reports;
mod resource;
mod sections;
mod source;
mod spec;
mod status;
mod values;

pub use notices::{BackendNotice, notices};
pub use objects::{BackendObjects, BackendProblem, KnownObject};
pub use orders::{AnswerResult, AskedOrders, BackendAnswer, BackendOrder, OrderBook};
pub use removal::{BackendRemoval, FINALIZER, NAMED_SERVICES, RemovalPhase, wanted_finalizers};
pub use reports::{ReadStatus, StatusReports};
pub use resource::BackendResource;
pub use sections::{
    AddressSection, DropGuardSection, FloorSection, KeyListSection, LimitSection, LossSection, ModeSection,
    NamespaceSection, RemovalSection,
};
pub use source::{
    CloudModeSection, ExportSection, KubernetesSourceSection, OpenstackSourceSection, SecretSection,
    ServiceNameSection, SourceSection,
};
pub use spec::{BackendSpec, InvalidSpec};
pub use status::{BackendCondition, BackendResourceStatus, ConditionType, Standing, StatusFacts};
pub use values::{
    AddressRange, CertificateName, MappedNamespace, NamespaceRule, Percent, ProjectRule, RenamedProtocol, SecretName,
};
