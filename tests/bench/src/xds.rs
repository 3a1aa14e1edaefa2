//! The messages by which Contour tells Envoy of endpoints, with the fields that tell which change is among them. Field numbers are
//! those of Envoy's `envoy/service/discovery/v3/discovery.proto` and `envoy/config/endpoint/v3`.

use std::collections::HashMap;

use prost::Message;

use crate::change::number;

/// What is sent before each message of gRPC: whether it is compressed, and its length.
const PREFIX: usize = 5;

#[derive(Clone, PartialEq, Message)]
struct DiscoveryRequest {
    #[prost(string, tag = "5")]
    response_nonce: String,
    #[prost(message, optional, tag = "6")]
    error_detail: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
}

#[derive(Clone, PartialEq, Message)]
struct DiscoveryResponse {
    #[prost(message, repeated, tag = "2")]
    resources: Vec<Any>,
    #[prost(string, tag = "5")]
    nonce: String,
}

#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ClusterLoadAssignment {
    #[prost(message, repeated, tag = "2")]
    endpoints: Vec<LocalityLbEndpoints>,
}

#[derive(Clone, PartialEq, Message)]
struct LocalityLbEndpoints {
    #[prost(message, repeated, tag = "2")]
    lb_endpoints: Vec<LbEndpoint>,
}

#[derive(Clone, PartialEq, Message)]
struct LbEndpoint {
    #[prost(message, optional, tag = "1")]
    endpoint: Option<Endpoint>,
}

#[derive(Clone, PartialEq, Message)]
struct Endpoint {
    #[prost(message, optional, tag = "1")]
    address: Option<Address>,
}

#[derive(Clone, PartialEq, Message)]
struct Address {
    #[prost(message, optional, tag = "1")]
    socket_address: Option<SocketAddress>,
}

#[derive(Clone, PartialEq, Message)]
struct SocketAddress {
    #[prost(string, tag = "2")]
    address: String,
}

/// Both directions of one stream of endpoints.
#[derive(Debug, Default)]
pub struct Conversation {
    telling: Messages,
    asking: Messages,
    /// The newest change in each message that is not answered yet, by its nonce.
    told: HashMap<String, u32>,
}

impl Conversation {
    /// Takes in data of Contour's.
    pub fn told(&mut self, data: &[u8]) {
        for message in self.telling.take(data) {
            let Some(message) = decoded::<DiscoveryResponse>(&message) else { continue };
            let newest = message.resources.iter().filter_map(|resource| newest(&resource.value)).max();
            self.told.extend(newest.map(|newest| (message.nonce, newest)));
        }
    }

    /// Takes in data of Envoy's. Returns the changes that it has taken in; what it refuses is printed, and does not arrive.
    pub fn asked(&mut self, data: &[u8]) -> Vec<u32> {
        let mut taken = Vec::new();
        for message in self.asking.take(data) {
            let Some(message) = decoded::<DiscoveryRequest>(&message) else { continue };
            let Some(newest) = self.told.remove(&message.response_nonce) else { continue };
            match message.error_detail {
                None => taken.push(newest),
                Some(Status { message }) => eprintln!("Envoy refuses endpoints: {message}"),
            }
        }
        taken
    }
}

/// Returns the newest change among the endpoints of a Service.
fn newest(assignment: &[u8]) -> Option<u32> {
    let assignment = decoded::<ClusterLoadAssignment>(assignment)?;
    let endpoints = assignment.endpoints.iter().flat_map(|locality| &locality.lb_endpoints);
    let address = |endpoint: &LbEndpoint| endpoint.endpoint.as_ref()?.address.as_ref()?.socket_address.clone();
    endpoints.filter_map(|endpoint| number(&address(endpoint)?.address)).max()
}

/// Returns a message; one that is not readable is printed, and its change does not arrive.
fn decoded<T: Message + Default>(data: &[u8]) -> Option<T> {
    T::decode(data).inspect_err(|error| eprintln!("a message between Contour and Envoy: {error}")).ok()
}

/// Puts the messages of a stream of gRPC together from its pieces.
#[derive(Debug, Default)]
struct Messages(Vec<u8>);

impl Messages {
    fn take(&mut self, data: &[u8]) -> Vec<Vec<u8>> {
        self.0.extend(data);
        let mut whole = Vec::new();
        while let Some(length) = self.0.get(1..PREFIX).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()) {
            let end = PREFIX + u32::from_be_bytes(length) as usize;
            let Some(message) = self.0.get(PREFIX..end) else { break };
            whole.push(message.to_vec());
            self.0.drain(..end);
        }
        whole
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::change::address;

    fn framed(message: &impl Message) -> Vec<u8> {
        let data = message.encode_to_vec();
        [&[0][..], &u32::try_from(data.len()).unwrap().to_be_bytes(), &data].concat()
    }

    /// Returns what Contour sends of a Service with these addresses.
    #[must_use]
    pub fn told(nonce: &str, addresses: &[&str]) -> Vec<u8> {
        let endpoint = |address: &&str| {
            let address = Address { socket_address: Some(SocketAddress { address: (*address).to_owned() }) };
            LbEndpoint { endpoint: Some(Endpoint { address: Some(address) }) }
        };
        let locality = LocalityLbEndpoints { lb_endpoints: addresses.iter().map(endpoint).collect() };
        let assignment = ClusterLoadAssignment { endpoints: vec![locality] };
        let resources = vec![Any { value: assignment.encode_to_vec() }];
        framed(&DiscoveryResponse { resources, nonce: nonce.to_owned() })
    }

    /// Returns Envoy's answer to that.
    #[must_use]
    pub fn asked(nonce: &str, refusal: Option<&str>) -> Vec<u8> {
        let error_detail = refusal.map(|message| Status { message: message.to_owned() });
        framed(&DiscoveryRequest { response_nonce: nonce.to_owned(), error_detail })
    }

    #[test]
    fn a_change_is_taken_in_when_envoy_answers_the_message_that_has_it() {
        let mut conversation = Conversation::default();
        assert_eq!(conversation.asked(&asked("", None)), [0; 0], "the first request answers nothing");
        let (old, new) = (address(4).to_string(), address(9).to_string());
        conversation.told(&told("1", &["10.0.0.1", &old]));
        conversation.told(&told("2", &["10.0.0.1", &old, &new]));
        assert_eq!(conversation.asked(&asked("1", None)), [4]);
        assert_eq!(conversation.asked(&asked("1", None)), [0; 0], "answered before");
        assert_eq!(conversation.asked(&asked("2", None)), [9]);
        conversation.told(&told("3", &[&new]));
        assert_eq!(conversation.asked(&asked("3", Some("no"))), [0; 0], "refused");
        conversation.told(&told("4", &["10.0.0.1"]));
        assert_eq!(conversation.asked(&asked("4", None)), [0; 0], "no change");
    }

    #[test]
    fn messages_come_in_any_pieces() {
        let both = [asked("1", None), asked("2", None)].concat();
        for piece in 1..both.len() {
            let mut conversation = Conversation::default();
            conversation.told(&told("1", &[&address(1).to_string()]));
            conversation.told(&told("2", &[&address(2).to_string()]));
            let taken: Vec<u32> = both.chunks(piece).flat_map(|data| conversation.asked(data)).collect();
            assert_eq!(taken, [1, 2], "in pieces of {piece}");
        }
    }
}
