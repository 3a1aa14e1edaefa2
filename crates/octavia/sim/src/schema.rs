//! The fields of each kind of object: what a request may set, what is filled in, and what is refused.
//!
//! Source: `octavia/api/v2/types` and `octavia/common/constants.py`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use crate::http::ApiRefusal;

/// The values of an object's fields.
pub(crate) type Fields = BTreeMap<&'static str, Value>;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ApiKind {
    LoadBalancer,
    Listener,
    Pool,
    Member,
    Monitor,
    Policy,
    Rule,
}

impl ApiKind {
    /// Returns the name in messages, `_name()` of Octavia's data models.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::LoadBalancer => "Load Balancer",
            Self::Listener => "Listener",
            Self::Pool => "Pool",
            Self::Member => "Member",
            Self::Monitor => "Health Monitor",
            Self::Policy => "L7 Policy",
            Self::Rule => "L7 Rule",
        }
    }

    /// Returns the key of one object in a body.
    pub(crate) fn singular(self) -> &'static str {
        match self {
            Self::LoadBalancer => "loadbalancer",
            Self::Listener => "listener",
            Self::Pool => "pool",
            Self::Member => "member",
            Self::Monitor => "healthmonitor",
            Self::Policy => "l7policy",
            Self::Rule => "rule",
        }
    }

    /// Returns the key of a list, and the last segment of its path.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::LoadBalancer => "loadbalancers",
            Self::Listener => "listeners",
            Self::Pool => "pools",
            Self::Member => "members",
            Self::Monitor => "healthmonitors",
            Self::Policy => "l7policies",
            Self::Rule => "rules",
        }
    }

    pub(crate) fn fields(self) -> &'static [Field] {
        match self {
            Self::LoadBalancer => BALANCER,
            Self::Listener => LISTENER,
            Self::Pool => POOL,
            Self::Member => MEMBER,
            Self::Monitor => MONITOR,
            Self::Policy => POLICY,
            Self::Rule => RULE,
        }
    }
}

/// What a value must look like.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// A text of at most this number of characters.
    Text(usize),
    Bool,
    /// A number within these bounds.
    Number(i64, i64),
    Uuid,
    Address,
    /// Networks in CIDR notation.
    Cidrs,
    /// Texts of at most 255 characters.
    Tags,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these numbers.
    Code(&'static [i64]),
    /// The address of a web page.
    Url,
    /// An object or a list, checked by whoever uses it.
    Any,
}

/// When a request may set a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Required,
    /// Required in a creation; an update may set it.
    Mandatory,
    Creation,
    Always,
}

/// One field of a kind.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    shape: Shape,
    when: When,
    initial: fn() -> Value,
}

const fn field(name: &'static str, shape: Shape, when: When, initial: fn() -> Value) -> Field {
    Field { name, shape, when, initial }
}

fn null() -> Value {
    Value::Null
}
fn on() -> Value {
    json!(true)
}
fn off() -> Value {
    json!(false)
}
fn text() -> Value {
    json!("")
}
fn list() -> Value {
    json!([])
}

use Shape::{Address, Any, Bool, Cidrs, Code, Number, Tags, Text, Url, Uuid, Word};
use When::{Always, Creation, Mandatory, Required};

const PORTS: Shape = Number(1, 65_535);
/// In milliseconds; `MAX_TIMEOUT`.
const TIMEOUT: Shape = Number(0, 31_536_000_000);

const BALANCER: &[Field] = &[
    field("name", Text(255), Always, text),
    field("description", Text(255), Always, text),
    field("admin_state_up", Bool, Always, on),
    field("vip_address", Address, Creation, null),
    field("vip_port_id", Uuid, Creation, null),
    field("vip_subnet_id", Uuid, Creation, null),
    field("vip_network_id", Uuid, Creation, null),
    field("additional_vips", Any, Creation, list),
    field("vip_sg_ids", Tags, Always, list),
    field("project_id", Text(36), Creation, null),
    field("provider", Text(64), Creation, null),
    field("flavor_id", Uuid, Creation, null),
    field("availability_zone", Text(255), Creation, null),
    field("tags", Tags, Always, list),
];

const LISTENER: &[Field] = &[
    field("name", Text(255), Always, text),
    field("description", Text(255), Always, text),
    field("admin_state_up", Bool, Always, on),
    field("protocol", Word(&["HTTP", "HTTPS", "TCP", "TERMINATED_HTTPS", "UDP", "SCTP", "PROMETHEUS"]), Required, null),
    field("protocol_port", PORTS, Required, null),
    field("connection_limit", Number(-1, i64::MAX), Always, || json!(-1)),
    field("default_pool_id", Uuid, Always, null),
    field("insert_headers", Any, Always, || json!({})),
    field("timeout_client_data", TIMEOUT, Always, || json!(50_000)),
    field("timeout_member_connect", TIMEOUT, Always, || json!(5_000)),
    field("timeout_member_data", TIMEOUT, Always, || json!(50_000)),
    field("timeout_tcp_inspect", TIMEOUT, Always, || json!(0)),
    field("tags", Tags, Always, list),
    field("allowed_cidrs", Cidrs, Always, null),
    field("default_tls_container_ref", Text(255), Always, null),
    field("sni_container_refs", Tags, Always, list),
];

const POOL: &[Field] = &[
    field("name", Text(255), Always, text),
    field("description", Text(255), Always, text),
    field("admin_state_up", Bool, Always, on),
    field("protocol", Word(&["HTTP", "HTTPS", "PROXY", "PROXYV2", "TCP", "UDP", "SCTP"]), Required, null),
    field("lb_algorithm", Word(&["ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"]), Always, null),
    field("session_persistence", Any, Always, null),
    field("tls_enabled", Bool, Always, off),
    field("tags", Tags, Always, list),
];

const MEMBER: &[Field] = &[
    field("name", Text(255), Always, text),
    field("admin_state_up", Bool, Always, on),
    field("address", Address, Required, null),
    field("protocol_port", PORTS, Required, null),
    field("weight", Number(0, 256), Always, || json!(1)),
    field("backup", Bool, Always, off),
    field("subnet_id", Uuid, Creation, null),
    field("monitor_port", PORTS, Always, null),
    field("monitor_address", Address, Always, null),
    field("tags", Tags, Always, list),
];

const MONITOR: &[Field] = &[
    field("name", Text(255), Always, text),
    field("type", Word(&["HTTP", "HTTPS", "PING", "TCP", "TLS-HELLO", "UDP-CONNECT", "SCTP"]), Required, null),
    field("delay", Number(0, i64::MAX), Mandatory, null),
    field("timeout", Number(0, i64::MAX), Mandatory, null),
    field("max_retries", Number(1, 10), Mandatory, null),
    field("max_retries_down", Number(1, 10), Always, || json!(3)),
    field("http_method", Text(16), Always, null),
    field("url_path", Text(2048), Always, null),
    field("expected_codes", Text(64), Always, null),
    field("admin_state_up", Bool, Always, on),
    field("tags", Tags, Always, list),
];

/// `MAX_POLICY_POSITION`, the position of a policy at the end.
pub(crate) const LAST_POSITION: i64 = 2_147_483_647;
const POSITION: Shape = Number(1, LAST_POSITION);

const POLICY: &[Field] = &[
    field("name", Text(255), Always, text),
    field("description", Text(255), Always, text),
    field("admin_state_up", Bool, Always, on),
    field("action", Word(&["REJECT", "REDIRECT_TO_URL", "REDIRECT_TO_POOL", "REDIRECT_PREFIX"]), Mandatory, null),
    field("redirect_pool_id", Uuid, Always, null),
    field("redirect_url", Url, Always, null),
    field("redirect_prefix", Url, Always, null),
    field("redirect_http_code", Code(&[301, 302, 303, 307, 308]), Always, null),
    field("position", POSITION, Always, || json!(LAST_POSITION)),
    field("tags", Tags, Always, list),
];

const RULE: &[Field] = &[
    field("type", Word(&["HOST_NAME", "PATH", "FILE_TYPE", "HEADER", "COOKIE"]), Mandatory, null),
    field("compare_type", Word(&["REGEX", "STARTS_WITH", "ENDS_WITH", "CONTAINS", "EQUAL_TO"]), Mandatory, null),
    field("key", Text(255), Always, null),
    field("value", Text(255), Mandatory, null),
    field("invert", Bool, Always, off),
    field("admin_state_up", Bool, Always, on),
    field("tags", Tags, Always, list),
];

/// The fields of a member that a batch update resets when it leaves them out: the defaults of `MemberPOST`.
pub(crate) const RESET_BY_BATCH: [&str; 5] = ["weight", "backup", "admin_state_up", "monitor_port", "monitor_address"];

/// Reads the body of a creation: every field, with what is filled in for those that are left out. `extra` are keys that the
/// caller reads itself.
pub(crate) fn created(kind: ApiKind, body: &Value, extra: &[&str]) -> Result<Fields, ApiRefusal> {
    let body = object(kind, body)?;
    known(kind, body, extra)?;
    let mut fields = Fields::new();
    for field in kind.fields() {
        let value = match body.get(field.name) {
            Some(value) if !value.is_null() => field.read(value)?,
            _ if matches!(field.when, Required | Mandatory) => return Err(missing(field.name)),
            _ => (field.initial)(),
        };
        fields.insert(field.name, value);
    }
    Ok(fields)
}

/// Reads the body of an update: only what it sets. A null restores what a creation would have filled in.
pub(crate) fn updated(kind: ApiKind, body: &Value) -> Result<Fields, ApiRefusal> {
    let body = object(kind, body)?;
    known(kind, body, &[])?;
    let mut fields = Fields::new();
    for field in kind.fields() {
        let Some(value) = body.get(field.name) else { continue };
        if !matches!(field.when, Always | Mandatory) {
            return Err(unknown(field.name));
        }
        fields.insert(field.name, if value.is_null() { (field.initial)() } else { field.read(value)? });
    }
    Ok(fields)
}

/// Reads a member of a batch: only what it sets, the address and the port among it.
pub(crate) fn batched(body: &Value) -> Result<Fields, ApiRefusal> {
    let body = object(ApiKind::Member, body)?;
    known(ApiKind::Member, body, &[])?;
    let mut fields = Fields::new();
    for field in MEMBER {
        match body.get(field.name) {
            Some(value) if !value.is_null() => _ = fields.insert(field.name, field.read(value)?),
            _ if field.when == Required => return Err(missing(field.name)),
            _ if RESET_BY_BATCH.contains(&field.name) => _ = fields.insert(field.name, (field.initial)()),
            _ => {}
        }
    }
    Ok(fields)
}

/// Fills in what a creation would, for fields that are not there.
pub(crate) fn fill(kind: ApiKind, fields: &mut Fields) {
    for field in kind.fields() {
        fields.entry(field.name).or_insert_with(field.initial);
    }
}

fn object(kind: ApiKind, body: &Value) -> Result<&Map<String, Value>, ApiRefusal> {
    let wrong = || ApiRefusal::new(400, format!("Invalid input for field/attribute {}.", kind.singular()));
    body.as_object().ok_or_else(wrong)
}

fn known(kind: ApiKind, body: &Map<String, Value>, extra: &[&str]) -> Result<(), ApiRefusal> {
    let is_known = |key: &str| {
        extra.contains(&key) || key == "tenant_id" || key == "project_id" || kind.fields().iter().any(|f| f.name == key)
    };
    body.keys().find(|key| !is_known(key)).map_or(Ok(()), |key| Err(unknown(key)))
}

pub(crate) fn unknown(name: &str) -> ApiRefusal {
    ApiRefusal::new(400, format!("Unknown attribute: {name}"))
}

fn missing(name: &str) -> ApiRefusal {
    ApiRefusal::new(400, format!("Invalid input for field/attribute {name}. Mandatory field missing."))
}

impl Field {
    fn read(&self, value: &Value) -> Result<Value, ApiRefusal> {
        let name = self.name;
        let wrong = |what: &str| ApiRefusal::new(400, format!("Invalid input for field/attribute {name}. {what}"));
        let texts = |value: &Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|one| one.as_str().map(str::to_owned)).collect()
        };
        Ok(match self.shape {
            Text(longest) => {
                let text = value.as_str().ok_or_else(|| wrong("Value should be string"))?;
                if text.chars().count() > longest {
                    return Err(wrong(&format!("Value should have a maximum character requirement of {longest}")));
                }
                json!(text)
            }
            Bool => json!(value.as_bool().ok_or_else(|| wrong("Value should be boolean"))?),
            Number(least, most) => {
                let number = value.as_i64().ok_or_else(|| wrong("Value should be a number"))?;
                if !(least..=most).contains(&number) {
                    return Err(wrong(&format!("Value should be between {least} and {most}")));
                }
                json!(number)
            }
            Uuid => {
                let text = value.as_str().filter(|text| is_uuid(text));
                json!(text.ok_or_else(|| wrong("Value should be UUID format"))?)
            }
            Address => {
                let text = value.as_str().filter(|text| text.parse::<IpAddr>().is_ok());
                json!(text.ok_or_else(|| wrong("Value should be IPv4 or IPv6 format"))?)
            }
            Cidrs => {
                let cidrs = texts(value).and_then(|all| all.iter().map(|one| network(one)).collect::<Option<Vec<_>>>());
                let cidrs = cidrs.ok_or_else(|| wrong("Value should be IPv4 or IPv6 CIDR format"))?;
                // Without rows there is no restriction, and the answer says null.
                if cidrs.is_empty() { Value::Null } else { json!(cidrs) }
            }
            Tags => {
                let tags = texts(value).filter(|all| all.iter().all(|tag| tag.chars().count() <= 255));
                let mut tags = tags.ok_or_else(|| wrong("Value should be a list of short texts"))?;
                tags.sort();
                tags.dedup();
                json!(tags)
            }
            Word(words) => {
                let word = value.as_str().filter(|word| words.contains(word));
                json!(word.ok_or_else(|| wrong(&format!("Value should be one of: {}", words.join(", "))))?)
            }
            Code(codes) => {
                let code = value.as_i64().filter(|code| codes.contains(code));
                json!(code.ok_or_else(|| wrong("Value should be one of the codes"))?)
            }
            Url => {
                let url = value.as_str().filter(|text| is_url(text));
                json!(url.ok_or_else(|| wrong("Value must be a valid URL string"))?)
            }
            Any => value.clone(),
        })
    }
}

/// Returns whether `validate.url` takes a text.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_printed = |c: char| !c.is_control() && c != ' ';
    matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") && !host.is_empty() && text.chars().all(is_printed)
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.bytes().all(|c| c == b'-' || c.is_ascii_hexdigit())
}

/// Returns a network as Python's `ip_network(text, strict=False).with_prefixlen` prints it.
fn network(text: &str) -> Option<String> {
    let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let (address, most): (IpAddr, u32) = match address.parse().ok()? {
        IpAddr::V4(address) => (IpAddr::V4(address), 32),
        IpAddr::V6(address) => (IpAddr::V6(address), 128),
    };
    let length: u32 = length.map_or(Some(most), |length| length.parse().ok())?;
    let host = most.checked_sub(length)?;
    let base = match address {
        IpAddr::V4(address) => IpAddr::V4((u32::from(address) & u32::MAX.checked_shl(host).unwrap_or(0)).into()),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & u128::MAX.checked_shl(host).unwrap_or(0)).into()),
    };
    Some(format!("{base}/{length}"))
}
