//! Errors in words that may cross a trust boundary.

use crate::ApiError;

impl ApiError {
    /// Returns a fixed description of the error. It has no URL and no text of a server, a proxy or a credential plug-in,
    /// which could reveal secrets or how a cluster is built. Log the full message only in the process that made the call.
    #[must_use]
    pub fn public_reason(&self) -> &'static str {
        match self {
            Self::NotFound { namespace: true, .. } => "its namespace is not there",
            Self::NotFound { .. } => "not found: the API server knows no such thing",
            Self::NotServed { .. } => "the API server does not serve objects of this kind",
            Self::AlreadyExists { .. } => "already exists: the name is taken",
            Self::Conflict { .. } => "conflict: it changed meanwhile",
            Self::Forbidden { .. } => {
                "forbidden: the API server says that a right is missing, or that a quota or an admission rule is against it"
            }
            Self::NamespaceTerminating { .. } => "its namespace is being deleted",
            Self::Invalid { .. } => "the API server refuses what it was asked",
            Self::TooLarge { .. } => "too large for the API server",
            Self::Throttled { .. } => "the API server asks for patience",
            Self::Gone { .. } => "the API server does not remember that far back",
            Self::Unauthorized { .. } => "unauthorized: the API server does not accept the credentials",
            Self::Server { .. } => "the API server fails",
            Self::Timeout { .. } => "the API server does not answer in time",
            Self::Transport { .. } => "the API server cannot be reached",
            Self::Truncated { .. } => "the API server's answer broke off",
            Self::Withheld => "not sent: it was not permitted any more",
            Self::Undecodable { .. } => "the API server's answer cannot be read",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_message_is_public() {
        let message = || "https://user:hunter2@10.0.0.1 hunter2".to_owned();
        for error in [
            ApiError::NotFound { message: message(), namespace: true },
            ApiError::NotServed { message: message() },
            ApiError::Forbidden { message: message() },
            ApiError::Invalid { message: message(), status: Some(422) },
            ApiError::Server { message: message(), status: 500, retry_after: None },
            ApiError::Transport { message: message() },
            ApiError::Truncated { message: message() },
        ] {
            let reason = error.public_reason();
            assert!(!reason.is_empty() && !reason.contains("hunter2") && !reason.contains("://"), "{reason}");
        }
    }
}
