//! Enumerations and small values, both ways.

use std::net::IpAddr;

use gimbal_kuryr_model::{
    Algorithm, DesiredKey, DesiredKind, FloatingAllocation, ListenerKind, MemberAddressing, MemberMode, MonitorKind,
    Phase, ProxyVersion, RouteState, Text, VipMode,
};
use gimbal_model::Family;
use gimbal_wire::parse::{Parsed, invalid};
use ipnet::IpNet;
use prost::bytes::Bytes;

use crate::{KuryrReason, pb};

/// An enumeration with a number for each value. 0 means that it is unset.
pub(crate) trait Numbered: Sized {
    fn number(self) -> i32;

    fn from_number(number: i32) -> Parsed<Self>;

    /// 0 is `None`.
    fn option_number(value: Option<Self>) -> i32 {
        value.map_or(0, Self::number)
    }

    fn from_option_number(number: i32) -> Parsed<Option<Self>> {
        if number == 0 { Ok(None) } else { Self::from_number(number).map(Some) }
    }
}

macro_rules! numbered {
    ($($ours:ident as $theirs:ident, $field:literal: $($value:ident),+ $(,)?;)+) => {
        $(impl From<$ours> for pb::$theirs {
            fn from(value: $ours) -> Self {
                match value {
                    $($ours::$value => Self::$value,)+
                }
            }
        }

        impl Numbered for $ours {
            fn number(self) -> i32 {
                pb::$theirs::from(self).into()
            }

            fn from_number(number: i32) -> Parsed<Self> {
                match pb::$theirs::try_from(number) {
                    $(Ok(pb::$theirs::$value) => Ok(Self::$value),)+
                    Ok(pb::$theirs::Unspecified) | Err(_) => {
                        invalid($field, format!("is {number}, which this version does not know"))
                    }
                }
            }
        })+
    };
}

numbered! {
    DesiredKind as EntryKind, "kind": LoadBalancer, L7Router, Port, Network, SecurityGroup;
    ListenerKind as ListenerKind, "kind of a listener": Plain, Http, TerminatedHttps;
    Family as Family, "family": V4, V6;
    MemberMode as MemberMode, "kind of members": Pod, Node;
    Algorithm as Algorithm, "algorithm": RoundRobin, LeastConnections, SourceIp, SourceIpPort;
    ProxyVersion as ProxyVersion, "version of the PROXY header": V1, V2;
    MonitorKind as MonitorKind, "kind of a monitor": Connect, Http, Https, TlsHello, Ping;
    Phase as Phase, "phase": Waiting, Making, Ready, Degraded, Blocked, Held, Removing, Gone;
    RouteState as RouteState, "state of routes": Left, Missing, Partial;
    FloatingAllocation as FloatingAllocation, "allocation": User, Pool;
    VipMode as VipMode, "mode of VIPs": ClusterIp, Allocate;
    MemberAddressing as MemberAddressing, "addressing of members": L2, L3;
    KuryrReason as RejectReason, "reason":
        Invalid, TooLarge, Unsupported, OwnerConflict, ProjectNotAllowed, NetworkNotAllowed, FloatingNotAllowed,
        ProviderNotAllowed, MemberNotAllowed, SharingNotAllowed, Quota, Quarantined, CertificateNotAllowed;
}

impl From<&DesiredKey> for pb::EntryKey {
    fn from(key: &DesiredKey) -> Self {
        let DesiredKey { namespace, kind, name } = key;
        Self { kind: kind.number(), namespace: namespace.to_string(), name: name.to_string() }
    }
}

impl From<IpNet> for pb::Cidr {
    fn from(range: IpNet) -> Self {
        Self { address: address(range.addr()), prefix_len: range.prefix_len().into() }
    }
}

/// Encodes an address.
pub(crate) fn address(address: IpAddr) -> Bytes {
    match address {
        IpAddr::V4(v4) => Bytes::copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => Bytes::copy_from_slice(&v6.octets()),
    }
}

pub(crate) fn option_text(text: Option<&Text>) -> Option<String> {
    text.map(ToString::to_string)
}

pub(crate) fn texts<'a>(list: impl IntoIterator<Item = &'a Text>) -> Vec<String> {
    list.into_iter().map(ToString::to_string).collect()
}
