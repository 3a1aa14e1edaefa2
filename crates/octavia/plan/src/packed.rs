//! What was seen, in few bytes: most load balancers rest most of the time, and what was seen of them is compared with nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::secret::SeenSecret;
use crate::seen::{
    HiddenSecrets, Provisioning, Seen, SeenBalancer, SeenFloatingIp, SeenListener, SeenMember, SeenMonitor, SeenPool,
    SeenPort,
};
use crate::seen_policy::{SeenPolicy, SeenRule};

/// Texts that are in nearly every load balancer. Others are written out where they come first.
const COMMON: [&str; 29] = [
    "",
    "null",
    "ONLINE",
    "OFFLINE",
    "NO_MONITOR",
    "DEGRADED",
    "ERROR",
    "TCP",
    "UDP",
    "SCTP",
    "HTTP",
    "PROXY",
    "PROXYV2",
    "TERMINATED_HTTPS",
    "ROUND_ROBIN",
    "LEAST_CONNECTIONS",
    "SOURCE_IP",
    "SOURCE_IP_PORT",
    "amphora",
    "ovn",
    "Octavia",
    "REDIRECT_TO_POOL",
    "REDIRECT_PREFIX",
    "HOST_NAME",
    "PATH",
    "REGEX",
    "EQUAL_TO",
    "STARTS_WITH",
    r#"{"connection_limit":-1,"insert_headers":{},"timeout_client_data":50000,"timeout_member_connect":5000,"timeout_member_data":50000,"timeout_tcp_inspect":0}"#,
];

/// How a text is written; the number above these two bits is given with each.
const KNOWN: u64 = 0; // its place among those before
const ID: u64 = 1; // 1 with dashes, 0 without
const WORDS: u64 = 2; // how many words, with a blank between two
const LETTERS: u64 = 3; // how many bytes

/// Returns what was seen in few bytes.
pub(crate) fn pack(seen: &Seen) -> Box<[u8]> {
    let known = COMMON.iter().zip(0..).map(|(text, at)| ((*text).to_owned(), at)).collect();
    let mut packer = Packer { bytes: Vec::new(), known };
    seen.pack(&mut packer);
    packer.bytes.into_boxed_slice()
}

/// Returns what [`pack`] was given; `None` for bytes that it does not return.
pub(crate) fn unpack(bytes: &[u8]) -> Option<Seen> {
    let mut unpacker = Unpacker { bytes, known: COMMON.iter().map(|text| (*text).to_owned()).collect() };
    Seen::unpack(&mut unpacker)
}

struct Packer {
    bytes: Vec<u8>,
    known: BTreeMap<String, u64>,
}

struct Unpacker<'a> {
    bytes: &'a [u8],
    known: Vec<String>,
}

impl Packer {
    /// Seven bits a byte, the lowest first.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn text(&mut self, text: &str) {
        if let Some(at) = self.known.get(text) {
            return self.number(at << 2 | KNOWN);
        }
        if let Some((bytes, dashed)) = id(text) {
            self.number(u64::from(dashed) << 2 | ID);
            self.bytes.extend(bytes);
        } else if text.contains(' ') {
            self.number((text.split(' ').count() as u64) << 2 | WORDS);
            text.split(' ').for_each(|word| self.text(word));
        } else {
            self.number((text.len() as u64) << 2 | LETTERS);
            self.bytes.extend(text.as_bytes());
        }
        self.known.insert(text.to_owned(), self.known.len() as u64);
    }
}

impl<'a> Unpacker<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = *self.take(1)? else { return None };
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn text(&mut self) -> Option<String> {
        let head = self.number()?;
        let number = usize::try_from(head >> 2).ok()?;
        let text = match head & 3 {
            KNOWN => return self.known.get(number).cloned(),
            ID => id_text(self.take(16)?, number == 1),
            WORDS => (0..number).map(|_| self.text()).collect::<Option<Vec<_>>>()?.join(" "),
            _ => std::str::from_utf8(self.take(number)?).ok()?.to_owned(),
        };
        self.known.push(text.clone());
        Some(text)
    }
}

/// Reads a UUID in lower case, with dashes or without.
fn id(text: &str) -> Option<([u8; 16], bool)> {
    let dashed = text.len() == 36;
    if !dashed && text.len() != 32 {
        return None;
    }
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let bytes: Vec<u8> =
        digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect::<Option<_>>()?;
    let bytes: [u8; 16] = bytes.try_into().ok()?;
    (id_text(&bytes, dashed) == text).then_some((bytes, dashed))
}

fn id_text(bytes: &[u8], dashed: bool) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if dashed && [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        for nibble in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(u32::from(nibble), 16));
        }
    }
    text
}

/// What can be packed.
trait Packable: Sized {
    fn pack(&self, to: &mut Packer);
    fn unpack(from: &mut Unpacker<'_>) -> Option<Self>;
}

impl Packable for String {
    fn pack(&self, to: &mut Packer) {
        to.text(self);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Self> {
        from.text()
    }
}

impl Packable for Value {
    fn pack(&self, to: &mut Packer) {
        to.text(&self.to_string());
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Self> {
        serde_json::from_str(&from.text()?).ok()
    }
}

impl Packable for bool {
    fn pack(&self, to: &mut Packer) {
        to.number(u64::from(*self));
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Self> {
        Some(from.number()? == 1)
    }
}

impl Packable for Provisioning {
    fn pack(&self, to: &mut Packer) {
        to.number(*self as u64);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Self> {
        let all = [Self::Active, Self::PendingCreate, Self::PendingUpdate, Self::PendingDelete, Self::Error];
        all.get(from.count()?).copied()
    }
}

impl<T: Packable> Packable for Option<T> {
    fn pack(&self, to: &mut Packer) {
        to.number(u64::from(self.is_some()));
        self.iter().for_each(|one| one.pack(to));
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Self> {
        if from.number()? == 0 { Some(None) } else { T::unpack(from).map(Some) }
    }
}

impl<T: Packable> Packable for Vec<T> {
    fn pack(&self, to: &mut Packer) {
        to.number(self.len() as u64);
        self.iter().for_each(|one| one.pack(to));
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Self> {
        (0..from.count()?).map(|_| T::unpack(from)).collect()
    }
}

impl Packable for (String, String) {
    fn pack(&self, to: &mut Packer) {
        self.0.pack(to);
        self.1.pack(to);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Option<Self> {
        Some((String::unpack(from)?, String::unpack(from)?))
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Packable for $type {
            fn pack(&self, to: &mut Packer) {
                to.number(u64::from(*self));
            }

            fn unpack(from: &mut Unpacker<'_>) -> Option<Self> {
                Self::try_from(from.number()?).ok()
            }
        }
    )*};
}

/// Names every field, so that a new one does not compile without its place here.
macro_rules! structs {
    ($($type:ident { $($field:ident),* $(,)? })*) => {$(
        impl Packable for $type {
            fn pack(&self, to: &mut Packer) {
                let Self { $($field),* } = self;
                $($field.pack(to);)*
            }

            fn unpack(from: &mut Unpacker<'_>) -> Option<Self> {
                $(let $field = Packable::unpack(from)?;)*
                Some(Self { $($field),* })
            }
        }
    )*};
}

numbers! { u16, u32, u64 }

structs! {
    Seen { balancers, ports, floating, secrets, secrets_hidden }
    SeenBalancer {
        id, provisioning, operating, created_at, name, tags, description, admin_state_up, project, provider, flavor,
        zone, vip_address, vip_port, vip_subnet, additional_vips, security_groups, listeners, pools,
    }
    SeenListener {
        id, provisioning, name, tags, protocol, port, default_pool, admin_state_up, allowed_cidrs, policies, row,
    }
    SeenPolicy { id, provisioning, name, position, action, pool, prefix, url, admin_state_up, tags, rules }
    SeenRule { id, provisioning, kind, compare, key, value, invert, admin_state_up, tags }
    SeenPool { id, provisioning, name, tags, protocol, algorithm, admin_state_up, persistence, monitor, members }
    SeenMonitor { id, provisioning, row }
    SeenMember {
        id, provisioning, name, address, port, weight, backup, admin_state_up, subnet, monitor_port, monitor_address,
        tags,
    }
    SeenPort {
        id, subnet, address, fixed, project, name, device, device_owner, security_groups, tags, description, revision,
        user, user_goes,
    }
    SeenFloatingIp { id, address, port, project, network, description, revision, tags }
    SeenSecret { id, reference, name, created_at, project }
    HiddenSecrets { words, is_refused }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen() -> Seen {
        let tags = ["gimbal-cluster:prod1", "k8s-cluster:5d0c", "k8s-svc-uid:0d7c7f4a-5b0e-4a8e-9d41-3f1c2b3a4d5e"];
        let id = |n: u16| format!("0d7c7f4a-5b0e-4a8e-9d41-3f1c2b3a{n:04x}");
        let members: Vec<Value> = (0..20)
            .map(|n| {
                json!({"id": id(100 + n), "provisioning_status": "ACTIVE", "name": format!("shop/web-{n}:8080"),
                    "address": format!("10.1.0.{n}"), "protocol_port": 8080, "weight": u16::from(n != 3), "backup": n == 4,
                    "subnet_id": (n == 5).then(|| id(9)), "monitor_port": (n == 6).then_some(80),
                    "monitor_address": (n == 7).then_some("10.9.9.9"), "tags": &tags[2..]})
            })
            .collect();
        let row = json!({
            "id": id(1), "provisioning_status": "PENDING_UPDATE", "operating_status": "ONLINE", "name": "shop/web",
            "description": tags.join(" "), "tags": tags, "project_id": "8f0c7f4a5b0e4a8e9d413f1c2b3a4d5e",
            "provider": "Ämphora", "vip_address": "10.0.0.2", "vip_port_id": id(2), "vip_subnet_id": id(3),
            "created_at": "2026-01-01T00:00:00", "additional_vips": [{"subnet_id": id(4), "ip_address": "fd00::1"}],
            "vip_sg_ids": ["no-uuid-but-36-letters-as-one-has-!!", "0D7C7F4A-5B0E-4A8E-9D41-3F1C2B3A4D5E", " a  b "],
            "listeners": [{"id": id(5), "protocol": "TCP", "protocol_port": 80, "default_pool_id": id(6), "tags": tags,
                "allowed_cidrs": ["10.0.0.0/8"], "connection_limit": -1, "insert_headers": {"X-Forwarded-For": "true"},
                "l7policies": [{"id": id(10), "position": 1, "action": "REDIRECT_TO_POOL", "redirect_pool_id": id(6),
                    "rules": [{"id": id(11), "type": "HOST_NAME", "compare_type": "REGEX", "value": "^a$", "tags": tags},
                        {"id": id(12), "type": "HEADER", "compare_type": "CONTAINS", "key": "x", "value": "b", "invert": true}]},
                    {"id": id(13), "position": 2, "action": "REDIRECT_PREFIX", "redirect_prefix": "https://a"}]}],
            "pools": [{"id": id(6), "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN", "members": members,
                "session_persistence": {"type": "SOURCE_IP"}, "healthmonitor": {"id": id(7), "delay": 5.5}}],
        });
        let port = json!({"id": id(2), "fixed_ips": [{"subnet_id": id(3), "ip_address": "10.0.0.2"}],
            "project_id": "p", "device_id": "lb-1", "device_owner": "Octavia", "description": "mine", "revision_number": u64::MAX});
        let floating = json!({"id": id(8), "floating_ip_address": "172.24.4.9", "port_id": id(2)});
        Seen {
            balancers: vec![SeenBalancer::read_tree(&row), SeenBalancer::default()],
            ports: vec![SeenPort::read(&port)],
            floating: vec![SeenFloatingIp::read(&floating)],
            secrets: vec![SeenSecret { id: id(9), name: "gimbal/prod1/5d0c".into(), ..SeenSecret::default() }],
            secrets_hidden: None,
        }
    }

    #[test]
    fn what_was_packed_comes_back() {
        let seen = seen();
        let packed = pack(&seen);
        assert_eq!(unpack(&packed), Some(seen));
        assert_eq!(unpack(&pack(&Seen::default())), Some(Seen::default()));
        assert!(packed.len() < 2_000, "{}", packed.len());
    }

    #[test]
    fn other_bytes_are_refused() {
        let packed = pack(&seen());
        for cut in 0..packed.len() {
            assert_eq!(unpack(&packed[..cut]), None, "{cut}");
        }
    }
}
