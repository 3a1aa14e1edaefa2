//! What one step of each pure part costs, in instructions and allocations.
fn main() {}
