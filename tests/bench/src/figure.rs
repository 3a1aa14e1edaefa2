//! What is measured.

use serde::{Deserialize, Serialize};

use crate::flame::Flame;
use crate::plot::Plot;

/// One figure of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What, in words.
    pub what: String,
    /// Ours.
    pub value: f64,
    /// What both values are in.
    pub unit: String,
    /// What it is compared with, in the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// What we want.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<Aim>,
}

/// The same thing done without us, or as it is at best.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// What, in words: "raw creates".
    pub what: String,
    /// Its value.
    pub value: f64,
}

/// What a figure should be. A figure with a floor is judged by its ratio to the floor, another by its value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Aim {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

/// What a scenario found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// In the order of the table.
    pub figures: Vec<Figure>,
    /// Pictures of it.
    pub plots: Vec<Plot>,
    /// Where the time went.
    pub flames: Vec<Flame>,
    /// What the reader has to know: sizes, what was left out.
    pub notes: Vec<String>,
}

impl Figure {
    /// A figure by itself.
    #[must_use]
    pub fn new(what: impl Into<String>, value: f64, unit: &str) -> Self {
        Self { what: what.into(), value, unit: unit.to_owned(), floor: None, aim: None }
    }

    /// Compared with this.
    #[must_use]
    pub fn floor(mut self, what: &str, value: f64) -> Self {
        self.floor = Some(Floor { what: what.to_owned(), value });
        self
    }

    /// Wanted to be this.
    #[must_use]
    pub fn aim(mut self, aim: Aim) -> Self {
        self.aim = Some(aim);
        self
    }

    /// To its floor.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.floor.as_ref().map(|floor| self.value / floor.value)
    }

    /// Whether it is as wanted; `None` where nothing is wanted.
    #[must_use]
    pub fn is_met(&self) -> Option<bool> {
        let judged = self.ratio().unwrap_or(self.value);
        self.aim.map(|aim| match aim {
            Aim::AtMost(most) => judged <= most,
            Aim::AtLeast(least) => judged >= least,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_with_a_floor_is_judged_by_its_ratio() {
        let rate = Figure::new("rate", 90.0, "/s").floor("raw", 100.0).aim(Aim::AtLeast(0.95));
        assert_eq!((rate.ratio(), rate.is_met()), (Some(0.9), Some(false)));
        let memory = Figure::new("memory", 59.0, "MB").aim(Aim::AtMost(60.0));
        assert_eq!((memory.ratio(), memory.is_met()), (None, Some(true)));
        assert_eq!(Figure::new("seen", 1.0, "").is_met(), None);
    }
}
