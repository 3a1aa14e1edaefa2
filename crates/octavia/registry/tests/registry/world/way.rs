//! What becomes of a change on its way.

use gimbal_octavia_plan::ServiceRefusal;

use super::SECOND;

/// What becomes of a change on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Arrives,
    /// It takes a second.
    Slow,
    /// It never arrives.
    Lost,
    /// It has its effect, and the answer is lost.
    AnswerLost,
    /// It has its effect only when its answer is no longer waited for.
    Late,
    /// It is refused for there are too many.
    Throttled,
    /// It is refused for the service is busy with the project.
    ProjectBusy,
    /// It is refused for something about it is invalid.
    Refused,
    /// It is refused for something that it needs is not there.
    NotFound,
}

impl Way {
    /// Returns how it is refused.
    pub(super) fn refusal(self) -> ServiceRefusal {
        match self {
            Self::Throttled => ServiceRefusal::Busy(Some(SECOND)),
            Self::ProjectBusy => ServiceRefusal::ProjectBusy(None),
            Self::Refused => ServiceRefusal::Invalid("it is not valid".to_owned()),
            Self::NotFound => ServiceRefusal::NotFound("Subnet s1 could not be found.".to_owned()),
            other => panic!("{other:?} is no refusal"),
        }
    }
}
