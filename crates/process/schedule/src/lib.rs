//! Decides what a writer sends next and how fast: a fair work queue, limits on concurrency and rate, and back-off.
//! Nothing here performs I/O or reads a clock; every method that depends on time takes `now`.
//!
//! ```
//! use std::time::Instant;
//! use gimbal_schedule::{Queue, Urgency};
//!
//! let (mut queue, now) = (Queue::new(), Instant::now());
//! queue.push(&"svc-1", &"tenant-a", Urgency::Bulk);
//! queue.push(&"svc-2", &"tenant-b", Urgency::Fresh);
//! assert_eq!(queue.pop(now), Some("svc-2"), "fresh changes pass a resync");
//! queue.start("svc-2");
//! queue.push(&"svc-2", &"tenant-b", Urgency::Fresh);
//! assert_eq!(queue.pop(now), Some("svc-1"), "a key is never handed out twice at a time");
//! queue.done(&"svc-2");
//! assert_eq!(queue.pop(now), Some("svc-2"));
//! ```

mod backoff;
mod concurrency_limit;
mod contention;
mod in_flight;
#[cfg(test)]
mod limits_simulation;
mod pause;
mod queue;
mod retries;
mod shared_limit;
mod tenant_lines;
mod token_bucket;
mod write_limiter;

pub use backoff::Backoff;
pub use concurrency_limit::{ConcurrencyLimit, WriteResult, WriteSample};
pub use in_flight::{InFlight, Lanes};
pub use pause::Pause;
pub use queue::{Queue, Urgency};
pub use retries::Retries;
pub use shared_limit::SharedLimit;
pub use token_bucket::TokenBucket;
pub use write_limiter::{LimiterSettings, Room, WaitReason, WriteLimiter};
