//! A look at the state for the objects of the kind Backend: what their annotations decide is carried out, and what is known of their
//! backends then is returned. No I/O.

use std::collections::BTreeMap;

use gimbal_backend::{AskedOrders, BackendAnswer, NAMED_SERVICES, OrderBook, Standing};
use gimbal_model::BackendName;
use gimbal_reconcile::{Reconciler, RemovalState};

/// An object that is looked at.
pub(crate) struct AskedObject {
    /// Whether anything of it is in force.
    pub(crate) in_force: bool,
    pub(crate) orders: AskedOrders,
}

/// What is known of the backend of an object.
#[derive(Debug, Default)]
pub(crate) struct KnownBackend {
    /// `None` if nothing of it was ever in force.
    pub(crate) standing: Option<Standing>,
    /// `None` if it cannot be ordered anything.
    pub(crate) answers: Option<Vec<BackendAnswer>>,
    /// Unset unless the object is being deleted or everything of the backend is being removed; `Some(None)`: how far that is, is not
    /// known yet.
    pub(crate) removal: Option<Option<RemovalState>>,
}

/// Returns what is known of each of these objects' backends; `None` if this process cannot know it, because it does not lead.
pub(crate) fn look_at(
    state: &mut Reconciler,
    book: &mut OrderBook,
    asked: &[AskedObject],
) -> Option<BTreeMap<BackendName, KnownBackend>> {
    if !state.is_leading() {
        return None;
    }
    let mut pending = state.pending_by_backend();
    let known = asked.iter().map(|asked| {
        let name = &asked.orders.name;
        let is_listed = state.backends().get(name).is_some_and(|backend| backend.is_listed());
        let may_order = asked.orders.is_leaving || (asked.in_force && is_listed);
        let answers = may_order.then(|| book.carry_out(state, &asked.orders));
        let backend = state.backends().get(name).filter(|backend| backend.is_listed());
        let is_removed = asked.orders.is_leaving || backend.is_some_and(|backend| backend.decommission().is_some());
        let standing = backend.filter(|_| asked.in_force);
        let standing = standing.map(|backend| Standing::of(backend, pending.remove(name).unwrap_or_default()));
        let removal = is_removed.then(|| state.removal(name, NAMED_SERVICES));
        (name.clone(), KnownBackend { standing, answers, removal })
    });
    Some(known.collect())
}
