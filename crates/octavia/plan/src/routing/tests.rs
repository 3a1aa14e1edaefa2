//! Who answers a request while routes become policies.

mod evaluate;
mod folding;
mod order;
mod taken;
