//! Tells a peer who it is to the process that answers it.

use gimbal_wire::pb;

use crate::{Peer, Viewer};

/// Most names of a certificate that are sent to its owner, and most characters of each. Not even an authority's word makes a long
/// answer.
const NAMES: usize = 20;
const NAME: usize = 300;

/// Returns who a peer is to the process that answers it.
#[must_use]
pub fn caller(peer: &Peer, viewer: &Viewer) -> pb::Caller {
    let names = match peer {
        Peer::Loopback => Vec::new(),
        Peer::Certificate(certificate) => {
            certificate.sans.iter().take(NAMES).map(|name| name.chars().take(NAME).collect()).collect()
        }
    };
    let only = match viewer {
        Viewer::All => String::new(),
        Viewer::Backend(only) => only.to_string(),
    };
    pb::Caller { names, only }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;
    use crate::PeerCertificate;

    #[test]
    fn a_peer_is_told_its_names_and_what_it_may_see() {
        let peer = |sans: Vec<String>| {
            let (not_after, address) = (SystemTime::UNIX_EPOCH, ([10, 0, 0, 1], 7).into());
            Peer::Certificate(Arc::new(PeerCertificate { sans, fingerprint_sha256: String::new(), not_after, address }))
        };
        let one = caller(&peer(vec!["spiffe://a/b".into()]), &Viewer::Backend("b".parse().unwrap()));
        assert_eq!((one.names, one.only), (vec!["spiffe://a/b".to_owned()], "b".to_owned()));
        assert_eq!(caller(&Peer::Loopback, &Viewer::All), pb::Caller::default());
        let many = caller(&peer(vec!["x".repeat(9000); 100]), &Viewer::All);
        assert_eq!((many.names.len(), many.names[0].len()), (NAMES, NAME));
    }
}
