//! Checks of texts and numbers. The rules of texts are those of the model, so that the sender has the same.

use std::net::IpAddr;

use gimbal_kuryr_model::{
    DesiredKey, DesiredKind, ListenerId, PoolId, Text, id_problem, match_problem, owner_problem, pool_problem,
    prefix_problem, words_problem,
};
pub(crate) use gimbal_kuryr_model::{MOST_NAME as NAME, MOST_REFERENCE as REFERENCE};
use gimbal_wire::Interner;
use gimbal_wire::parse::{self, Parsed, WireError, invalid};
use ipnet::IpNet;
use prost::bytes::Bytes;

use crate::pb;
use crate::values::Numbered;

/// Longest name of a condition or a reason in Kubernetes, in bytes.
pub(crate) const CONDITION: usize = 316;

/// Parses an ID of an object in OpenStack.
pub(crate) fn id(field: &'static str, text: String, intern: &mut Interner) -> Parsed<Text> {
    checked(field, id_problem(&text), text, intern)
}

fn checked(field: &'static str, problem: Option<String>, text: String, intern: &mut Interner) -> Parsed<Text> {
    match problem {
        Some(problem) => invalid(field, problem),
        None => Ok(intern.text(text)),
    }
}

pub(crate) fn option_id(field: &'static str, text: Option<String>, intern: &mut Interner) -> Parsed<Option<Text>> {
    text.map(|text| id(field, text, intern)).transpose()
}

pub(crate) fn ids<C: FromIterator<Text>>(field: &'static str, list: Vec<String>, intern: &mut Interner) -> Parsed<C> {
    list.into_iter().map(|text| id(field, text, intern)).collect()
}

/// Parses a text that people chose.
pub(crate) fn words(field: &'static str, text: String, limit: usize, intern: &mut Interner) -> Parsed<Text> {
    checked(field, words_problem(&text, limit), text, intern)
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
    checked("owner", owner_problem(&text), text, intern)
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

/// Parses the pool that members are in: that of a Service, or that of a listener.
pub(crate) fn pool(protocol: i32, port: u32, service: Option<String>, intern: &mut Interner) -> Parsed<PoolId> {
    match service {
        None => listener(protocol, port).map(PoolId::Listener),
        Some(_) if (protocol, port) != (0, 0) => invalid("pool", "of a Service is not of a listener"),
        Some(service) => service_pool("pool of a member", service, intern).map(PoolId::Service),
    }
}

/// Parses the ID of a pool of a Service.
pub(crate) fn service_pool(field: &'static str, text: String, intern: &mut Interner) -> Parsed<Text> {
    checked(field, pool_problem(&text), text, intern)
}

/// Parses the host, the path or the redirection of a route.
pub(crate) fn route_match(field: &'static str, text: String, intern: &mut Interner) -> Parsed<Text> {
    checked(field, match_problem(&text), text, intern)
}

/// Parses a path that a route takes by its segments.
pub(crate) fn path_prefix(text: String, intern: &mut Interner) -> Parsed<Text> {
    checked("path of a route", prefix_problem(&text), text, intern)
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
