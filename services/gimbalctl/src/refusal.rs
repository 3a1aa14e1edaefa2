//! What a server's refusal says, in one line for people.

use gimbal_runtime::Exit;
use gimbal_transport::{Code, LinkError, Status};

/// Returns the end of the process after a call that was refused or broke.
pub fn failed(status: Status) -> Exit {
    Exit::Failure(match LinkError::from(status) {
        LinkError::Call { code, message } => words(code, &message),
        other => other.to_string(),
    })
}

/// Returns the message, after the name of the code where the message alone does not say what kind of refusal it is.
fn words(code: Code, message: &str) -> String {
    let name = match code {
        // These come with a sentence that says what is wrong, and what to do.
        Code::InvalidArgument | Code::FailedPrecondition | Code::AlreadyExists | Code::DeadlineExceeded
            if !message.is_empty() =>
        {
            return message.to_owned();
        }
        Code::Ok | Code::Unknown => "failed",
        Code::Cancelled => "cancelled",
        Code::InvalidArgument => "invalid argument",
        Code::DeadlineExceeded => "not done in time",
        Code::NotFound => "not found",
        Code::AlreadyExists => "already there",
        Code::PermissionDenied => "permission denied",
        Code::ResourceExhausted => "too much at a time",
        Code::FailedPrecondition => "not in this state",
        Code::Aborted => "given up",
        Code::OutOfRange => "out of range",
        Code::Unimplemented => {
            "not known to the server, which may be of another version, or another program (`gimbalctl lb` asks openstack-writer, the other commands a writer)"
        }
        Code::Internal => "internal error of the server",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data was lost",
        Code::Unauthenticated => "not authenticated",
    };
    if message.is_empty() { name.to_owned() } else { format!("{name}: {message}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_the_servers_words_alone() {
        let told = |status: Status| failed(status).to_string();
        for (status, expected) in [
            (
                Status::not_found("cluster \"prod9\" is not configured"),
                "not found: cluster \"prod9\" is not configured",
            ),
            (Status::failed_precondition("set its mode to quarantine first"), "set its mode to quarantine first"),
            (Status::already_exists("shop/web has one already"), "shop/web has one already"),
            (Status::deadline_exceeded("it goes on"), "it goes on"),
            (Status::permission_denied("no administrator"), "permission denied: no administrator"),
            (Status::unavailable(""), "unavailable"),
            (Status::failed_precondition(""), "not in this state"),
        ] {
            assert_eq!(told(status), expected);
        }
        for code in 0..=16 {
            let code = Code::from_i32(code);
            let line = words(code, "");
            assert!(!line.is_empty() && line != code.to_string(), "{code:?} has gRPC's prose");
        }
    }
}
