//! Where an actor keeps what was seen.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use crate::packed::{pack, unpack};
use crate::seen::Seen;

/// What was seen. While its actor rests it is packed; whoever reads it unpacks it.
#[derive(Clone, Default)]
pub(crate) struct SeenStore {
    /// Nothing while it is packed.
    plain: Seen,
    packed: Option<PackedSeen>,
}

#[derive(Clone)]
struct PackedSeen {
    bytes: Box<[u8]>,
    has_balancers: bool,
    has_floating: bool,
    has_policies: bool,
    /// Since it was read.
    unpacked: OnceLock<Box<Seen>>,
}

impl PackedSeen {
    fn get(&self) -> &Seen {
        // These bytes were unpacked once when they were packed.
        self.unpacked.get_or_init(|| Box::new(unpack(&self.bytes).unwrap_or_default()))
    }
}

impl SeenStore {
    /// Packs it until it is read or changed.
    pub(crate) fn pack(&mut self) {
        if let Some(packed) = &mut self.packed {
            drop(packed.unpacked.take());
            return;
        }
        let bytes = pack(&self.plain);
        // What would not come back as it is stays.
        if self.plain != Seen::default() && unpack(&bytes).as_ref() == Some(&self.plain) {
            let plain = std::mem::take(&mut self.plain);
            let (has_balancers, has_floating) = (!plain.balancers.is_empty(), !plain.floating.is_empty());
            let (has_policies, unpacked) = (has_policies(&plain), OnceLock::new());
            self.packed = Some(PackedSeen { bytes, has_balancers, has_floating, has_policies, unpacked });
        }
    }

    /// Whether there are load balancers; nothing is unpacked for that.
    pub(crate) fn has_balancers(&self) -> bool {
        self.packed.as_ref().map_or(!self.plain.balancers.is_empty(), |packed| packed.has_balancers)
    }

    /// Whether there are floating IPs; nothing is unpacked for that.
    pub(crate) fn has_floating(&self) -> bool {
        self.packed.as_ref().map_or(!self.plain.floating.is_empty(), |packed| packed.has_floating)
    }

    /// Whether listeners have policies; nothing is unpacked for that.
    pub(crate) fn has_policies(&self) -> bool {
        self.packed.as_ref().map_or_else(|| has_policies(&self.plain), |packed| packed.has_policies)
    }
}

fn has_policies(seen: &Seen) -> bool {
    seen.balancers.iter().flat_map(|one| &one.listeners).any(|one| !one.policies.is_empty())
}

impl From<Seen> for SeenStore {
    fn from(plain: Seen) -> Self {
        Self { plain, packed: None }
    }
}

impl Deref for SeenStore {
    type Target = Seen;

    fn deref(&self) -> &Seen {
        self.packed.as_ref().map_or(&self.plain, PackedSeen::get)
    }
}

impl DerefMut for SeenStore {
    fn deref_mut(&mut self) -> &mut Seen {
        if let Some(packed) = self.packed.take() {
            self.plain = packed.get().clone();
        }
        &mut self.plain
    }
}

impl PartialEq for SeenStore {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for SeenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
