//! The scenarios, each in a module that starts its own servers.

use crate::Context;
use crate::figure::Outcome;

mod bulk;
mod envoy;
mod failover;
mod fair;
mod growth;
mod kuryr;
mod large;
mod latency;
mod many;
mod memory;
mod overload;
mod profile;
mod quiet;
mod verbs;
mod wire;

pub use kuryr::Row;

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// Everything from empty, against raw creates of the same objects
    Bulk,
    /// How long a change takes, against a bare relay
    Latency,
    /// How long a change takes until Envoy has it, against changes made by hand
    Envoy,
    /// More changes than the API server takes
    Overload,
    /// One backend floods, another changes something now and then
    Fair,
    /// PUT, the patches and apply compared, on the API server alone
    Verbs,
    /// Restarts and reconnects where nothing has changed
    Quiet,
    /// 255 backends on one writer
    Many,
    /// Bytes of a change between discoverer and writer
    Wire,
    /// What is resident for one large source, in each phase, and under changes
    Memory,
    /// Time and memory of an object at three sizes
    Growth,
    /// Services as load balancers, against the bare API of Octavia
    Kuryr,
    /// Memory for 10,000 load balancers, which a model of Octavia has
    Large,
    /// The leader of two writers killed, stopped and ended, and the API server away
    Failover,
    /// Flame graphs of a bulk sync and of churn; needs perf, and is run only when it is named
    Profile,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(clap::ValueEnum::to_possible_value(self).as_ref().map_or("", |value| value.get_name()))
    }
}

impl Name {
    /// Returns the requested scenarios; all, if none was requested.
    pub fn chosen(asked: &[Self]) -> Vec<Self> {
        if !asked.is_empty() {
            return asked.to_vec();
        }
        // It measures nothing, and not every machine has perf.
        let all = <Self as clap::ValueEnum>::value_variants().iter();
        all.copied().filter(|name| *name != Self::Profile).collect()
    }

    /// Returns whether the scenario can run here. If it needs a place without a network, the program runs there again with these
    /// arguments, which name this scenario alone.
    ///
    /// # Errors
    /// The scenario fails there.
    pub fn is_here(self, args: &[String]) -> anyhow::Result<bool> {
        if self == Self::Envoy { envoy::is_alone(args) } else { Ok(true) }
    }

    /// Runs the scenario.
    ///
    /// # Errors
    /// A server or a process does not do what it should.
    pub async fn run(self, context: &Context) -> anyhow::Result<Outcome> {
        match self {
            Self::Bulk => bulk::run(context).await,
            Self::Latency => latency::run(context).await,
            Self::Envoy => envoy::run(context).await,
            Self::Overload => overload::run(context).await,
            Self::Fair => fair::run(context).await,
            Self::Verbs => verbs::run(context).await,
            Self::Quiet => quiet::run(context).await,
            // A future of this size does not belong on the stack.
            Self::Many => Box::pin(many::run(context)).await,
            Self::Wire => wire::run(context).await,
            Self::Memory => memory::run(context).await,
            Self::Growth => growth::run(context).await,
            Self::Kuryr => kuryr::run(context).await,
            Self::Large => large::run(context).await,
            Self::Failover => Box::pin(failover::run(context)).await,
            Self::Profile => profile::run(context).await,
        }
    }
}
