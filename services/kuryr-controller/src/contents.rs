//! Answers the writer's requests for certificates. A certificate is read from the API server for each answer, and kept nowhere.

use std::collections::VecDeque;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use gimbal_discoverer::{ContentRequest, SourceReply};
use gimbal_kubernetes_client::{ApiError, Cluster};
use gimbal_kubernetes_objects::TlsSecret;
use gimbal_kuryr_model::{CertificateContent, CertificateHash};
use gimbal_kuryr_wire::Kuryr;
use gimbal_model::SourceKey;
use gimbal_session::Content as _;

use crate::certificate::content;

/// Requests that are worked on at a time.
const AT_A_TIME: usize = 4;

/// A request with the Secrets that may have what it asks for.
type Asked = (ContentRequest<Kuryr>, Vec<SourceKey>);

/// Requests of the writer for contents, until they are answered.
pub(crate) struct ContentReads {
    cluster: Cluster,
    waiting: VecDeque<Asked>,
    reading: Vec<ContentRequest<Kuryr>>,
    reads: FuturesUnordered<BoxFuture<'static, EndedRead>>,
    answers: Vec<SourceReply<Kuryr>>,
}

/// How a request ended.
pub(crate) struct EndedRead {
    request: ContentRequest<Kuryr>,
    found: Found,
}

enum Found {
    Content(CertificateContent),
    /// No Secret has it.
    Nothing,
    /// Not all Secrets could be read.
    Unknown,
}

impl ContentReads {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        Self {
            cluster: cluster.clone(),
            waiting: VecDeque::new(),
            reading: Vec::new(),
            reads: FuturesUnordered::new(),
            answers: Vec::new(),
        }
    }

    /// Takes in a request. It comes again while it is not answered.
    pub(crate) fn request(&mut self, request: ContentRequest<Kuryr>, secrets: Vec<SourceKey>) {
        let is_known = self.reading.contains(&request) || self.waiting.iter().any(|(other, _)| *other == request);
        if !is_known {
            self.waiting.push_back((request, secrets));
            self.begin();
        }
    }

    /// Waits until a request has ended.
    pub(crate) async fn ended(&mut self) -> EndedRead {
        match self.reads.next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// Takes in how a request ended. One about which nothing is known is not answered, so that it comes again.
    pub(crate) fn take(&mut self, EndedRead { request, found }: EndedRead) {
        self.reading.retain(|other| *other != request);
        let content = match found {
            Found::Content(content) => Some(Some(content)),
            Found::Nothing => Some(None),
            Found::Unknown => None,
        };
        self.answers.extend(content.map(|content| SourceReply::Content(request, content)));
        self.begin();
    }

    /// Returns the answers since the last call.
    pub(crate) fn drain(&mut self) -> Vec<SourceReply<Kuryr>> {
        std::mem::take(&mut self.answers)
    }

    /// Forgets everything: nothing of it is for whoever asks next.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(&self.cluster);
    }

    fn begin(&mut self) {
        while self.reads.len() < AT_A_TIME
            && let Some((request, secrets)) = self.waiting.pop_front()
        {
            self.reading.push(request.clone());
            let cluster = self.cluster.clone();
            self.reads.push(
                async move {
                    let found = find(&cluster, *request.hash(), &secrets).await;
                    EndedRead { request, found }
                }
                .boxed(),
            );
        }
    }
}

/// Reads the Secrets until one has the content.
async fn find(cluster: &Cluster, hash: CertificateHash, secrets: &[SourceKey]) -> Found {
    let mut nothing = Found::Nothing;
    for SourceKey { namespace, name } in secrets {
        match cluster.get::<TlsSecret>(namespace, name).await {
            Ok(secret) => match content(&secret) {
                Ok(content) if content.hash() == hash => return Found::Content(content),
                // It has been changed, and that is on its way.
                Ok(_) | Err(_) => {}
            },
            Err(ApiError::NotFound { .. }) => {}
            Err(error) => {
                let reason = error.public_reason();
                tracing::warn!(%namespace, name = %name, reason, "a Secret whose certificate the writer asks for cannot be read");
                nothing = Found::Unknown;
            }
        }
    }
    nothing
}
