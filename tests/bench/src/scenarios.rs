//! What can be measured, each in a module of its own that starts its own servers.

use crate::Context;
use crate::figure::Outcome;

mod bulk;

/// A scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// Everything from empty, against raw creates of the same objects
    Bulk,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(clap::ValueEnum::to_possible_value(self).as_ref().map_or("", |value| value.get_name()))
    }
}

impl Name {
    /// Those that were asked for; all, if none was.
    pub fn chosen(asked: &[Self]) -> Vec<Self> {
        if asked.is_empty() { <Self as clap::ValueEnum>::value_variants().to_vec() } else { asked.to_vec() }
    }

    /// Runs it.
    ///
    /// # Errors
    /// A server or a process that does not do what it should.
    pub async fn run(self, context: &Context) -> anyhow::Result<Outcome> {
        match self {
            Self::Bulk => bulk::run(context).await,
        }
    }
}
