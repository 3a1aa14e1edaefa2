//! Says in the status of a Backend how its discoverer is.

use std::time::Instant;

use gimbal_kubernetes_client::ApiError;
use gimbal_operator_core::{MANAGER, ReadyStatement, SourcedBackend, condition_to_write, problem_notice};
use serde_json::json;

use crate::owner::Operator;

impl Operator {
    /// Writes the condition if it says something else, and takes it away where there is no source any more. The fields are this
    /// program's own, and the writer's conditions stay as they are.
    pub(crate) async fn say(&mut self, backend: &SourcedBackend, stated: Option<&ReadyStatement>) {
        let there = backend.condition();
        let wall = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = match stated {
            Some(stated) => {
                let next = condition_to_write(stated, backend.metadata.generation, there.as_ref(), &wall);
                next.map(|condition| json!({ "conditions": [condition] }))
            }
            None if backend.has_source() => None,
            None => there.as_ref().map(|_| json!({})),
        };
        let meta = &backend.metadata.meta;
        let Some(status) = status else {
            self.unsaid.done(&*meta.name);
            return;
        };
        if self.unsaid.waits(&*meta.name, Instant::now()).is_some() {
            return;
        }
        // One without an answer takes as long as a write may.
        self.health.beat();
        let answer = self.permitted.apply_status::<SourcedBackend>(meta, &status, MANAGER).await;
        self.metrics.written("Backend", "status", answer.as_ref().err());
        match answer {
            Ok(made) => {
                self.unsaid.done(&*meta.name);
                self.backends.put(made);
                let notice = stated.and_then(|stated| problem_notice(&backend.metadata, stated, there.as_ref()));
                notice.iter().for_each(|notice| self.notices.push(notice));
            }
            // This process does not lead any more.
            Err(ApiError::Withheld) => {}
            Err(error) => {
                let is_first = self.unsaid.failed(meta.name.to_string(), Instant::now(), ());
                // Deleted or made anew, as the watch shows.
                let is_gone = matches!(error, ApiError::NotFound { .. } | ApiError::Conflict { .. });
                if is_first && !is_gone {
                    tracing::warn!(backend = %meta.name, %error, "cannot write the status of a Backend; it is tried again");
                }
            }
        }
    }
}
