//! A build that sends no traces.

use gimbal_runtime::Exit;
use gimbal_session::TraceContext;

use crate::{SentChange, SettledChange};

/// Cannot exist in this build.
#[derive(Debug, Clone)]
pub(crate) enum Collector {}

impl Collector {
    pub(crate) fn connect(url: &str, _ratio: f64, _program: (&'static str, &'static str)) -> Result<Self, Exit> {
        let message =
            format!("--otlp-endpoint {url}: this program was built without traces; build it with --features otlp");
        Err(Exit::Usage(message))
    }

    pub(crate) fn sent(&mut self, _change: &SentChange<'_>) -> Option<TraceContext> {
        match *self {}
    }

    pub(crate) fn settled(&mut self, _trace: TraceContext, _change: &SettledChange<'_>) -> bool {
        match *self {}
    }

    pub(crate) async fn end(self) {
        match self {}
    }
}
