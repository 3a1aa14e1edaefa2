//! Says in the status of a Backend how its discoverer is.

use gimbal_kubernetes_client::ApiError;
use gimbal_operator_core::{MANAGER, ReadyStatement, SourcedBackend, condition_to_write};
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
            None => there.map(|_| json!({})),
        };
        let Some(status) = status else { return };
        let meta = &backend.metadata.meta;
        let answer = self.permitted.apply_status::<SourcedBackend>(meta, &status, MANAGER).await;
        self.metrics.written("Backend", "status", answer.as_ref().err());
        match answer {
            Ok(made) => self.backends.put(made),
            // Deleted or made anew, as the watch shows, or this process does not lead any more.
            Err(ApiError::NotFound { .. } | ApiError::Conflict { .. } | ApiError::Withheld) => {}
            Err(error) => tracing::warn!(backend = %meta.name, %error, "cannot write the status of a Backend"),
        }
    }
}
