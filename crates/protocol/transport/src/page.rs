//! Pages of a listing (AIP-158): of bounded size whoever asks for how much, and without a state between two of them.

use gimbal_model::{BackendName, SourceKey};
use gimbal_wire::{encoded_len, pb};
use tonic::Status;

use crate::{Inspection, Viewer};

/// Most bytes of a page, but for one that holds a single Service: many pages may wait to be read at a time.
const PAGE: usize = 128 << 10;
/// Tag and length of an entry.
const FIELD: usize = 8;

/// A place in every listing of Services, whose order is that of backend, namespace and name. A page's token is the place of its
/// last one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Whose.
    pub backend: BackendName,
    /// Which of its Services.
    pub key: SourceKey,
}

/// A part of a listing.
#[derive(Debug, Default)]
pub struct Part {
    /// In order.
    pub services: Vec<pb::ServiceStatus>,
    /// The last place that was looked at, if there may be more behind it.
    pub seen: Option<Place>,
}

impl Place {
    /// Reads a token; an empty one stands for the beginning.
    fn parse(token: &str) -> Result<Option<Self>, Status> {
        if token.is_empty() {
            return Ok(None);
        }
        let place = token.split_once('/').and_then(|(backend, key)| {
            let (backend, key) = (BackendName::parse(backend).ok()?, SourceKey::from_annotation(key)?);
            Some(Self { backend, key })
        });
        let wrong = || Status::invalid_argument("page_token is none that an answer gave as next_page_token");
        place.ok_or_else(wrong).map(Some)
    }
}

fn token(status: &pb::ServiceStatus) -> String {
    let source = status.source.clone().unwrap_or_default();
    format!("{}/{}/{}", status.backend, source.namespace, source.name)
}

/// Puts a page together.
pub(crate) async fn page(
    inspection: &dyn Inspection,
    viewer: &Viewer,
    request: &pb::ListServicesRequest,
) -> Result<pb::ListServicesResponse, Status> {
    let negative = |_| Status::invalid_argument("page_size is negative");
    let most = match usize::try_from(request.page_size).map_err(negative)? {
        0 => usize::MAX,
        most => most,
    };
    let mut after = Place::parse(&request.page_token)?;
    let (mut page, mut bytes) = (pb::ListServicesResponse::default(), 0);
    loop {
        let part = inspection.list_services(viewer, request, after.as_ref()).await?;
        for service in part.services {
            bytes += FIELD + encoded_len(&service);
            if let Some(last) = page.services.last()
                && (page.services.len() == most || bytes > PAGE)
            {
                page.next_page_token = token(last);
                return Ok(page);
            }
            page.services.push(service);
        }
        match part.seen {
            Some(seen) => after = Some(seen),
            None => return Ok(page),
        }
    }
}
