//! Whose members change next, so that a Service whose members change all the time stops no other.

use crate::change::CloudChange;
use crate::memory::Memory;
use crate::seen::SeenPool;

/// After this many changes of members in a row something else comes before the next one, if there is anything.
const IN_A_ROW: u8 = 4;

/// The changes of members since something else was changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MemberTurns {
    count: u8,
    /// The pool whose members were changed last.
    last: Box<str>,
}

/// Returns the pool whose members a change is about.
pub(crate) fn members_of(change: &CloudChange) -> Option<&str> {
    match change {
        CloudChange::SetMembers { pool, .. }
        | CloudChange::CreateMember { pool, .. }
        | CloudChange::UpdateMember { pool, .. }
        | CloudChange::DeleteMember { pool, .. } => Some(pool),
        _ => None,
    }
}

impl MemberTurns {
    /// Takes note of a change that was sent.
    pub(crate) fn sent(turns: &mut Option<Box<Self>>, change: &CloudChange) {
        *turns = members_of(change).map(|pool| {
            let count = turns.as_ref().map_or(0, |turns| turns.count).saturating_add(1);
            Box::new(Self { count, last: pool.into() })
        });
    }

    /// Puts pools into the order in which their members change: those behind the last one come before it.
    pub(crate) fn order<T>(&self, pools: &mut [(T, &SeenPool)]) {
        let last = |(_, pool): &(T, &SeenPool)| *pool.id == *self.last;
        if let Some(at) = pools.iter().position(last) {
            pools.rotate_left(at + 1);
        }
    }
}

impl Memory {
    /// Whether something else comes before the members of a pool that is in use.
    pub(crate) fn others_first(&self) -> bool {
        self.member_turns.as_ref().is_some_and(|turns| turns.count >= IN_A_ROW)
    }
}
