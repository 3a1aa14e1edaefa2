//! The answers to orders that are not carried out: what it is about, what is wrong, and what to do.

use gimbal_kuryr_model::DesiredKey;
use gimbal_octavia_registry::AdoptionRefusal;
use tonic::Status;

use crate::clusters::OrderRefusal;
use crate::marked::ReleaseRefusal;

/// Returns an error if the ID of a load balancer is not one: it becomes a part of paths.
pub(super) fn check_id(id: &str) -> Result<(), Status> {
    let is_id = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
    match !id.is_empty() && id.bytes().all(is_id) {
        true => Ok(()),
        false => Err(Status::invalid_argument("name the load balancer by its ID: load_balancer_id")),
    }
}

pub(super) fn not_ordered(refusal: OrderRefusal) -> Status {
    match refusal {
        OrderRefusal::NotConfigured(_) => Status::not_found(refusal.to_string()),
        OrderRefusal::Unknown(_) | OrderRefusal::Changing(..) | OrderRefusal::Releasing(..) => {
            Status::unavailable(refusal.to_string())
        }
        OrderRefusal::Admitted(_)
        | OrderRefusal::NoUid(_)
        | OrderRefusal::UnderWay { .. }
        | OrderRefusal::Wanted(..)
        | OrderRefusal::Removing(..) => Status::failed_precondition(refusal.to_string()),
    }
}

pub(super) fn not_released(refusal: ReleaseRefusal) -> Status {
    match refusal {
        ReleaseRefusal::NotFound(_) => Status::not_found(refusal.to_string()),
        ReleaseRefusal::Unavailable(_) => Status::unavailable(refusal.to_string()),
        ReleaseRefusal::NotMarked(..)
        | ReleaseRefusal::Status(..)
        | ReleaseRefusal::Certificates(_)
        | ReleaseRefusal::Refused(_) => Status::failed_precondition(refusal.to_string()),
    }
}

pub(super) fn not_configured(cluster: &str) -> Status {
    Status::not_found(format!("cluster {cluster:?} is not configured, or its controller has never come"))
}

pub(super) fn not_adopted(refusal: AdoptionRefusal, cluster: &str, key: &DesiredKey, id: &str) -> Status {
    match refusal {
        AdoptionRefusal::NoEntry => Status::not_found(format!(
            "cluster {cluster} does not want a load balancer for {key}: the Service is not there, or asks for none"
        )),
        AdoptionRefusal::HasOne(has) => Status::already_exists(format!(
            "{key} has the load balancer {has} already; the annotation loadbalancer.openstack.org/load-balancer-id, set when the \
             Service is made, keeps another one from being made"
        )),
        AdoptionRefusal::NotFound => {
            Status::not_found(format!("there is no load balancer {id} in the project that {key} is for"))
        }
        AdoptionRefusal::OwnedBy(words) => Status::failed_precondition(words.to_string()),
        AdoptionRefusal::Differs(what) => Status::failed_precondition(format!(
            "load balancer {id} would have to be made anew for {key}, and was not changed: {what}; change the Service, or the \
             configuration of its cluster"
        )),
        AdoptionRefusal::Failed(words) => Status::unavailable(format!("load balancer {id} for {key}: {words}")),
    }
}
