//! The controller's end.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt as _;
use gimbal_kuryr_model::{
    Balancing, ClientRanges, DesiredEntry, DesiredKey, DesiredKind, DesiredLoadBalancer, DesiredMember, DesiredMembers,
    ListenerId, LoadBalancerHeader, LoadBalancerPlacement, MemberId, MemberMode, Phase, Timeouts, VipWish,
};
use gimbal_kuryr_wire::Kuryr;
use gimbal_model::{Family, Protocol};
use gimbal_session::{AgentConfig, AgentEnd, AgentMessage, AgentVerdict, Credit};
use gimbal_transport::{AgentSender, Channel, LinkError, WriterMessages, open};

use crate::common::SOON;

/// The controller's end, and its stream.
pub struct Controller {
    pub end: AgentEnd<Kuryr>,
    pub sender: AgentSender<Kuryr>,
    pub messages: WriterMessages<Kuryr>,
    pub reports: Vec<(DesiredKey, Phase, i64)>,
    pub data_frames: usize,
}

pub async fn stream(channel: Channel) -> (AgentSender<Kuryr>, WriterMessages<Kuryr>) {
    open::<Kuryr>(channel).await.unwrap()
}

impl Controller {
    pub async fn open(channel: Channel) -> Self {
        let config = AgentConfig { backend: "prod1".into(), instance: "i".into(), version: "controller 1".into() };
        let mut end = AgentEnd::new(config);
        end.set_incarnation("uid".into());
        end.grant_reports(Credit { changes: 10, bytes: 1 << 20 });
        end.source_complete();
        let (sender, messages) = stream(channel).await;
        end.connected(Instant::now());
        Self { end, sender, messages, reports: Vec::new(), data_frames: 0 }
    }

    pub async fn reopen(&mut self, channel: Channel) {
        self.end.disconnected();
        (self.sender, self.messages) = stream(channel).await;
        self.end.connected(Instant::now());
    }

    pub fn set(&mut self, name: &str, entry: Option<DesiredEntry>) {
        self.end.set(key(name), entry.map(Into::into), Instant::now());
    }

    /// Exchanges messages until a condition holds, and takes every report.
    pub async fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + SOON;
        loop {
            while let Some(received) = self.end.take_report() {
                self.reports.push((received.key.clone(), received.report.phase, received.report.generation));
                self.end.report_done(&received);
            }
            while let Some(message) = self.end.next(Instant::now()) {
                self.data_frames += usize::from(matches!(message, AgentMessage::Data(_)));
                self.sender.send(message).await.unwrap();
            }
            if condition(self) {
                return;
            }
            let message = tokio::time::timeout_at(deadline, self.messages.next()).await;
            let message = message.unwrap_or_else(|_| panic!("{what} did not come")).unwrap().unwrap();
            assert_eq!(self.end.receive(message, Instant::now()), AgentVerdict::Continue);
        }
    }

    /// The error that ends the stream.
    pub async fn end_of_stream(&mut self) -> Option<LinkError> {
        loop {
            match tokio::time::timeout(SOON, self.messages.next()).await.unwrap() {
                None => return None,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Some(error),
            }
        }
    }
}

pub fn key(name: &str) -> DesiredKey {
    DesiredKey::new(DesiredKind::LoadBalancer, "shop", name)
}

pub fn wanted(name: &str, generation: i64, hosts: u8) -> DesiredEntry {
    let header = LoadBalancerHeader {
        owner: format!("uid-{name}").into(),
        known: false,
        placement: LoadBalancerPlacement { project: "8f0c".into(), ..Default::default() },
        vip: VipWish { subnet: Some("2b1e".into()), ..Default::default() },
        floating: None,
        listeners: [].into(),
        clients: ClientRanges::Everyone,
        balancing: Balancing {
            family: Family::V4,
            members: MemberMode::Pod,
            algorithm: None,
            affinity_seconds: None,
            proxy: None,
        },
        timeouts: Timeouts::default(),
        monitor: None,
        tls_containers: [].into(),
        shared_group: None,
        adopt: None,
        routing: None,
    };
    let listener = ListenerId { protocol: Protocol::Tcp, port: 80 };
    let members = (0..hosts).map(|host| DesiredMember {
        id: MemberId { pool: listener.into(), address: IpAddr::from([10, 0, 0, host]), port: 8080 },
        weight: 1,
        name: None,
        subnet: None,
    });
    let members = DesiredMembers::new(members.collect());
    DesiredEntry::LoadBalancer(DesiredLoadBalancer { generation, header: Arc::new(header), members })
}
