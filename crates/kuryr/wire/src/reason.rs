//! Why an entry is not tried.

use gimbal_session::Reason;

/// Why the writer does not try to make an entry. What was tried and failed is a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KuryrReason {
    /// It cannot be read, or contradicts itself.
    Invalid,
    /// It is larger than a frame.
    TooLarge,
    /// The writer does not serve this kind of entry.
    Unsupported,
    /// Another entry has the same owner.
    OwnerConflict,
    /// The policy does not let the cluster into the project.
    ProjectNotAllowed,
    /// The policy does not allow a network, a subnet, a port or a security group.
    NetworkNotAllowed,
    /// The policy does not allow the network of the floating IP, or a chosen address.
    FloatingNotAllowed,
    /// The policy does not allow the provider, the flavor or the availability zone.
    ProviderNotAllowed,
    /// The policy does not let members point to an address.
    MemberNotAllowed,
    /// The policy does not let the load balancer be shared, or adopted.
    SharingNotAllowed,
    /// The number of objects that the policy allows is used up.
    Quota,
    /// The cluster is in quarantine.
    Quarantined,
    /// The policy does not allow the certificate that a listener asks for.
    CertificateNotAllowed,
}

impl KuryrReason {
    /// Every reason, in order.
    pub const ALL: [Self; 13] = [
        Self::Invalid,
        Self::TooLarge,
        Self::Unsupported,
        Self::OwnerConflict,
        Self::ProjectNotAllowed,
        Self::NetworkNotAllowed,
        Self::FloatingNotAllowed,
        Self::ProviderNotAllowed,
        Self::MemberNotAllowed,
        Self::SharingNotAllowed,
        Self::Quota,
        Self::Quarantined,
        Self::CertificateNotAllowed,
    ];

    /// Returns the name for conditions, metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::TooLarge => "TooLarge",
            Self::Unsupported => "Unsupported",
            Self::OwnerConflict => "OwnerConflict",
            Self::ProjectNotAllowed => "ProjectNotAllowed",
            Self::NetworkNotAllowed => "NetworkNotAllowed",
            Self::FloatingNotAllowed => "FloatingNotAllowed",
            Self::ProviderNotAllowed => "ProviderNotAllowed",
            Self::MemberNotAllowed => "MemberNotAllowed",
            Self::SharingNotAllowed => "SharingNotAllowed",
            Self::Quota => "Quota",
            Self::Quarantined => "Quarantined",
            Self::CertificateNotAllowed => "CertificateNotAllowed",
        }
    }
}

impl Reason for KuryrReason {
    const INVALID: Self = Self::Invalid;
    const TOO_LARGE: Self = Self::TooLarge;
}
