//! Translation of members to endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;

use gimbal_model::{Conditions, Endpoint};
use gimbal_octavia_rows::{Address, Member, ObjectKind, OperatingStatus, ProvisioningStatus};

use crate::skip::{LeftOut, SkipReason};

/// Returns the endpoints of a pool, each with the port that it listens on. Traffic goes to the members directly, so the
/// load balancer's choice is repeated here: a member that fails its health check is not ready, unless all fail, and a
/// backup is not ready while a primary is.
pub(super) fn endpoints<'m>(
    members: impl Iterator<Item = &'m Member>,
    left_out: &mut Vec<LeftOut>,
) -> Vec<(u16, Endpoint)> {
    let mut found: Vec<(IpAddr, u16, &Member)> = Vec::new();
    for member in members {
        match place(member) {
            Ok((address, port)) => found.push((address, port, member)),
            Err(skip) => left_out.push(LeftOut { kind: ObjectKind::Member, id: member.id.clone(), skip }),
        }
    }
    let fails = |member: &Member| member.operating == OperatingStatus::Error;
    let any = |backup: bool, failing: bool| {
        found.iter().any(|(_, _, member)| member.backup == backup && fails(member) == failing)
    };
    // Ready are working primaries, else working backups; if no member works, all primaries, or all backups if there are
    // no primaries.
    let (backups, failing) = if any(false, false) {
        (false, false)
    } else if any(true, false) {
        (true, false)
    } else {
        (!any(false, true), true)
    };
    let mut endpoints: BTreeMap<(u16, IpAddr), Conditions> = BTreeMap::new();
    for (address, port, member) in found {
        let ready = member.backup == backups && fails(member) == failing;
        // Some consumers look at `serving` alone.
        let conditions = Conditions { ready, serving: ready, terminating: false };
        // If two members have the same address and port, the ready one counts.
        let held = endpoints.entry((port, address)).or_insert(conditions);
        *held = (*held).max(conditions);
    }
    endpoints
        .into_iter()
        .map(|((port, address), conditions)| (port, Endpoint { address, conditions, detail: None }))
        .collect()
}

fn place(member: &Member) -> Result<(IpAddr, u16), SkipReason> {
    if member.provisioning == ProvisioningStatus::Deleting {
        return Err(SkipReason::Deleting);
    }
    if !member.admin_state_up {
        return Err(SkipReason::Off);
    }
    if member.weight == 0 {
        return Err(SkipReason::NoWeight);
    }
    let address = match &member.address {
        Address::Ip(address) => *address,
        Address::Unreadable(_) => return Err(SkipReason::BadAddress),
        Address::Missing => return Err(SkipReason::NoAddress),
    };
    Ok((address, member.port.ok_or(SkipReason::NoPort)?))
}
