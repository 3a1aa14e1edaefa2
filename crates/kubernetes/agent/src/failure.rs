//! What a failed list or watch means.

use gimbal_discoverer::KindFailure;
use gimbal_kubernetes_client::ApiError;

/// Returns how a failure affects the health of a watched kind.
#[must_use]
pub fn kind_failure(error: &ApiError) -> KindFailure {
    match error {
        ApiError::Forbidden { .. } => KindFailure::Denied,
        ApiError::Unauthorized { .. }
        | ApiError::NotFound { .. }
        | ApiError::NotServed { .. }
        | ApiError::Gone { .. }
        | ApiError::Undecodable { .. } => KindFailure::Missed,
        _ => KindFailure::Passing,
    }
}

/// Returns the label value of an error for metrics.
#[must_use]
pub fn failure_label(error: &ApiError) -> &'static str {
    match error {
        ApiError::NotFound { .. } | ApiError::NotServed { .. } => "NotFound",
        ApiError::Forbidden { .. } => "Forbidden",
        ApiError::Unauthorized { .. } => "Unauthorized",
        ApiError::Throttled { .. } => "Throttled",
        ApiError::Gone { .. } => "Gone",
        ApiError::Server { .. } => "Server",
        ApiError::Timeout { .. } => "Timeout",
        ApiError::Transport { .. } | ApiError::Truncated { .. } => "Transport",
        ApiError::Undecodable { .. } => "Undecodable",
        _ => "Refused",
    }
}
