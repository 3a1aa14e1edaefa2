//! Measured figures and their targets.

use serde::{Deserialize, Serialize};

use crate::flame::Flame;
use crate::plot::Plot;

/// One figure of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Description.
    pub what: String,
    /// The measured value.
    pub value: f64,
    /// Unit of both values.
    pub unit: String,
    /// The value that it is compared with, from the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// The target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<Aim>,
    /// Time and commit of the measurement, where they are not those of the scenario's other figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
}

/// The value of the same work done without Gimbal, or of the best possible result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Description, for instance "raw creates".
    pub what: String,
    /// Its value.
    pub value: f64,
}

/// The target of a figure. A figure with a floor is judged by its ratio to the floor, any other by its value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Aim {
    /// At most this value.
    AtMost(f64),
    /// At least this value.
    AtLeast(f64),
}

/// The result of a scenario.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Figures, in the order of the table.
    pub figures: Vec<Figure>,
    /// Plots of the figures.
    pub plots: Vec<Plot>,
    /// Flame graphs.
    pub flames: Vec<Flame>,
    /// Remarks for the reader: sizes, omissions.
    pub notes: Vec<String>,
}

impl Figure {
    /// Returns a figure without floor and target.
    #[must_use]
    pub fn new(what: impl Into<String>, value: f64, unit: &str) -> Self {
        Self { what: what.into(), value, unit: unit.to_owned(), floor: None, aim: None, measured: None }
    }

    /// Sets the floor.
    #[must_use]
    pub fn floor(mut self, what: &str, value: f64) -> Self {
        self.floor = Some(Floor { what: what.to_owned(), value });
        self
    }

    /// Sets the target.
    #[must_use]
    pub fn aim(mut self, aim: Aim) -> Self {
        self.aim = Some(aim);
        self
    }

    /// Returns the ratio to the floor.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.floor.as_ref().map(|floor| self.value / floor.value)
    }

    /// Whether the target is met; `None` without a target.
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
