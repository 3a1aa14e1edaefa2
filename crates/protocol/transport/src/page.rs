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
        let wrong = || Status::invalid_argument("page_token is not the next_page_token of an answer");
        place.ok_or_else(wrong).map(Some)
    }
}

fn token(status: &pb::ServiceStatus) -> String {
    let source = status.source.clone().unwrap_or_default();
    format!("{}/{}/{}", status.backend, source.namespace, source.name)
}

/// A page that is being filled.
#[derive(Debug)]
pub struct PageFiller<T> {
    items: Vec<T>,
    most: usize,
    bytes: usize,
}

impl<T: prost::Message> PageFiller<T> {
    /// Begins a page of at most this number of items; 0: no such limit.
    ///
    /// # Errors
    /// Returns an error when the number is negative.
    pub fn new(page_size: i32) -> Result<Self, Status> {
        let negative = |_| Status::invalid_argument("page_size is negative");
        let most = match usize::try_from(page_size).map_err(negative)? {
            0 => usize::MAX,
            most => most,
        };
        Ok(Self { items: Vec::new(), most, bytes: 0 })
    }

    /// Adds items, and returns whether the page is full: some of them had no room, and the next page begins after the
    /// last item of this one. A page holds at least one item, however large.
    pub fn add(&mut self, items: Vec<T>) -> bool {
        for item in items {
            self.bytes += FIELD + encoded_len(&item);
            if !self.items.is_empty() && (self.items.len() == self.most || self.bytes > PAGE) {
                return true;
            }
            self.items.push(item);
        }
        false
    }

    /// Returns the items.
    #[must_use]
    pub fn into_items(self) -> Vec<T> {
        self.items
    }
}

/// Builds a page from as many batches as it takes to fill it.
pub(crate) async fn page(
    inspection: &dyn Inspection,
    viewer: &Viewer,
    request: &pb::ListServicesRequest,
) -> Result<pb::ListServicesResponse, Status> {
    let mut page = PageFiller::new(request.page_size)?;
    let mut after = Place::parse(&request.page_token)?;
    loop {
        let part = inspection.list_services(viewer, request, after.as_ref()).await?;
        if page.add(part.services) {
            let services = page.into_items();
            let next_page_token = services.last().map(token).unwrap_or_default();
            return Ok(pb::ListServicesResponse { services, next_page_token });
        }
        match part.seen {
            Some(seen) => after = Some(seen),
            None => {
                return Ok(pb::ListServicesResponse { services: page.into_items(), next_page_token: String::new() });
            }
        }
    }
}
