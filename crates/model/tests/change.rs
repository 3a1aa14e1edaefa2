//! A change applied to the old state gives the new state, and the updated digest equals one that is computed anew.

use std::net::IpAddr;
use std::sync::Arc;

use gimbal_model::{
    Change, Conditions, DigestTree, Endpoint, EndpointPort, Header, PortSet, Protocol, Service, SourceKey,
};
use proptest::prelude::*;

fn ports() -> impl Strategy<Value = PortSet> {
    (0u16..3).prop_map(|n| {
        PortSet::new(vec![EndpointPort {
            name: "a".into(),
            port: Some(80 + n),
            protocol: Protocol::Tcp,
            app_protocol: None,
        }])
    })
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    (0u8..6, any::<bool>(), any::<bool>()).prop_map(|(host, ready, v6)| Endpoint {
        address: if v6 {
            IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(host)])
        } else {
            IpAddr::from([10, 0, 0, host])
        },
        conditions: if ready { Conditions::READY } else { Conditions::NOT_READY },
        detail: None,
    })
}

fn service() -> impl Strategy<Value = Service> {
    (0u8..3, proptest::collection::vec((ports(), endpoint()), 0..12)).prop_map(|(label, endpoints)| {
        let labels = [("n".into(), label.to_string().into())].into();
        Service::new(Arc::new(Header { labels, ..Header::default() }), endpoints)
    })
}

proptest! {
    #[test]
    fn between_leads_from_old_to_new(old in service(), new in service()) {
        let key = SourceKey::new("ns", "svc");
        match Change::between(Some(&old), Some(&new)) {
            None => prop_assert_eq!(old, new),
            Some(Change::Update { header, endpoints }) => {
                let mut held = old.clone();
                let mut digest = held.digest(&key);
                held.update(&key, &mut digest, header, endpoints);
                prop_assert_eq!(digest, new.digest(&key));
                prop_assert_eq!(held, new);
            }
            Some(other) => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn equal_digest_means_equal(a in service(), b in service()) {
        let key = SourceKey::new("ns", "svc");
        prop_assert_eq!(a.digest(&key) == b.digest(&key), a == b);
    }

    #[test]
    fn tree_forgets_what_is_subtracted(a in service(), b in service()) {
        let (one, two) = (SourceKey::new("ns", "one"), SourceKey::new("other", "two"));
        let mut tree = DigestTree::default();
        tree.add(&one.namespace, a.digest(&one));
        tree.add(&two.namespace, b.digest(&two));
        tree.subtract(&one.namespace, a.digest(&one));
        prop_assert_eq!(&tree, &DigestTree::of([(&two, &b)]));
        tree.subtract(&two.namespace, b.digest(&two));
        prop_assert_eq!(tree, DigestTree::default());
    }
}
