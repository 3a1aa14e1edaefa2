//! Stateless pages of a listing (AIP-158). Their size is limited even if the request has no `page_size`.

use gimbal_model::{BackendName, SourceKey};
use gimbal_wire::{encoded_len, pb};
use tonic::Status;

use crate::{Inspection, Viewer};

/// Largest page in bytes, unless it has a single Service. It is small because many pages may wait to be read at a time.
const PAGE: usize = 128 << 10;
/// Bytes for the tag and length of an entry.
const FIELD: usize = 8;

/// A position in a listing of Services, which is ordered by backend, namespace and name. A page token is the position
/// of the page's last Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The backend of the Service.
    pub backend: BackendName,
    /// The key of the Service in the backend's source.
    pub key: SourceKey,
}

/// A batch of a listing.
#[derive(Debug, Default)]
pub struct Part {
    /// The Services that match, in order of the listing.
    pub services: Vec<pb::ServiceStatus>,
    /// The last position that was examined; `None` at the end of the listing.
    pub seen: Option<Place>,
}

impl Place {
    /// Parses a page token. Returns `None` for an empty token, which means the beginning.
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

/// Builds a page from as many batches as it takes to fill it.
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
