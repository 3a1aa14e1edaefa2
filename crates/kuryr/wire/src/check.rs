//! Checks of texts. What comes from a cluster ends in requests to OpenStack and in log lines.

use std::net::IpAddr;

use gimbal_kuryr_model::{DesiredKey, DesiredKind, ListenerId, Text};
use gimbal_wire::Interner;
use gimbal_wire::parse::{self, Parsed, WireError, invalid};
use ipnet::IpNet;
use prost::bytes::Bytes;

use crate::pb;
use crate::values::Numbered;

/// Longest ID or name in OpenStack, in bytes.
pub(crate) const NAME: usize = 255;
/// Longest reference or path, in bytes.
pub(crate) const REFERENCE: usize = 2048;
/// Longest name of a condition or a reason in Kubernetes, in bytes.
pub(crate) const CONDITION: usize = 316;

/// Parses an ID of an object in OpenStack. It becomes a part of the path of requests, so it has no character that means
/// something there.
pub(crate) fn id(field: &'static str, text: String, intern: &mut Interner) -> Parsed<Text> {
    if text.is_empty() {
        return invalid(field, "is empty");
    }
    parse::bounded(field, &text, NAME)?;
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte)) || text.starts_with('.') {
        return invalid(field, "is not an ID");
    }
    Ok(intern.text(text))
}

pub(crate) fn option_id(field: &'static str, text: Option<String>, intern: &mut Interner) -> Parsed<Option<Text>> {
    text.map(|text| id(field, text, intern)).transpose()
}

pub(crate) fn ids<C: FromIterator<Text>>(field: &'static str, list: Vec<String>, intern: &mut Interner) -> Parsed<C> {
    list.into_iter().map(|text| id(field, text, intern)).collect()
}

/// Parses a text that people chose.
pub(crate) fn words(field: &'static str, text: String, limit: usize, intern: &mut Interner) -> Parsed<Text> {
    parse::bounded(field, &text, limit)?;
    if text.contains(char::is_control) {
        return invalid(field, "contains a control character");
    }
    Ok(intern.text(text))
}

pub(crate) fn option_words(
    field: &'static str,
    text: Option<String>,
    limit: usize,
    intern: &mut Interner,
) -> Parsed<Option<Text>> {
    text.map(|text| words(field, text, limit, intern)).transpose()
}

/// Parses the UID of an owner.
pub(crate) fn owner(text: String, intern: &mut Interner) -> Parsed<Text> {
    // In OpenStack's tags this stands for a group of owners.
    if text.starts_with("gimbal-group:") {
        return invalid("owner", "is not a UID");
    }
    id("owner", text, intern)
}

pub(crate) fn key(key: Option<pb::EntryKey>, intern: &mut Interner) -> Parsed<DesiredKey> {
    let pb::EntryKey { kind, namespace, name } = key.ok_or(WireError::Missing("key"))?;
    let kind = DesiredKind::from_number(kind)?;
    parse::name("namespace", &namespace)?;
    parse::name("name", &name)?;
    Ok(DesiredKey { namespace: intern.text(namespace), kind, name: name.into() })
}

pub(crate) fn listener(protocol: i32, port: u32) -> Parsed<ListenerId> {
    Ok(ListenerId::new(parse::protocol(protocol)?, parse::port("port of a listener", port)?))
}

pub(crate) fn option_address(address: Option<Bytes>) -> Parsed<Option<IpAddr>> {
    address.map(|address| parse::address(&address)).transpose()
}

pub(crate) fn cidr(cidr: pb::Cidr) -> Parsed<IpNet> {
    let pb::Cidr { address, prefix_len } = cidr;
    let address = parse::address(&address)?;
    let len = u8::try_from(prefix_len).ok().and_then(|len| IpNet::new(address, len).ok());
    len.ok_or_else(|| WireError::Invalid("prefix_len", format!("is {prefix_len}, too long for {address}")))
}

/// Parses a number of at most 255.
pub(crate) fn small(field: &'static str, number: u32) -> Parsed<u8> {
    u8::try_from(number).or_else(|_| invalid(field, format!("is {number}, more than 255")))
}

/// Checks that a list is sorted and has nothing twice.
pub(crate) fn sorted<T: Ord>(field: &'static str, mut list: impl Iterator<Item = T>) -> Parsed<()> {
    let Some(mut last) = list.next() else { return Ok(()) };
    for next in list {
        if next <= last {
            return invalid(field, "are not sorted, or not each once");
        }
        last = next;
    }
    Ok(())
}
