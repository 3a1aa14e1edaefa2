//! The size of a write, as the limit on bytes sent to watchers counts it.

use std::io;

use gimbal_plan::{Action, Body};

/// Assumed size of a delete. Watchers are sent the deleted object, whose size is not known here.
const DELETE: u64 = 1024;

/// Returns the bytes of the object written, roughly as it is sent to watchers.
pub fn write_size(write: &Action) -> u64 {
    let (Action::Create(body) | Action::Replace(body) | Action::Patch(body)) = write else { return DELETE };
    let mut counted = ByteCount(0);
    let done = match body {
        Body::Service(object) => serde_json::to_writer(&mut counted, object),
        Body::Slice(object) => serde_json::to_writer(&mut counted, object),
        Body::Endpoints(object) => serde_json::to_writer(&mut counted, object),
    };
    // An object that cannot be serialized fails where it would be sent.
    done.map_or(0, |()| counted.0)
}

struct ByteCount(u64);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimbal_kubernetes_objects::{Meta, Service};

    #[test]
    fn the_size_is_about_that_of_the_json() {
        let metadata = Meta { name: "x".repeat(900).into(), ..Meta::default() };
        let size = write_size(&Action::Create(Body::Service(Service { metadata, ..Service::default() })));
        assert!((900..1100).contains(&size), "{size}");
    }
}
