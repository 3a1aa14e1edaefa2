//! Metrics declared as tables: one line for each metric gives its field, its registration and its entry in the
//! reference.

use std::fmt::{self, Debug};
use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The description of one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricDoc {
    /// Name as it is exposed, with prefix, unit and the `_total` of a counter.
    pub name: String,
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// Help text.
    pub help: &'static str,
}

impl MetricDoc {
    /// Returns the unit, which is part of the name; empty for a number of things.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        let name = self.name.strip_suffix("_total").unwrap_or(&self.name);
        ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(&format!("_{unit}"))).unwrap_or_default()
    }

    /// Returns the description of a metric that is registered under a further prefix.
    #[must_use]
    pub fn under(self, prefix: &str) -> Self {
        Self { name: format!("{prefix}_{}", self.name), ..self }
    }
}

/// A field of a table of metrics.
pub trait TableMetric {
    /// What is registered: a handle that shares the field's values.
    type Handle: EncodeMetric + Debug + Send + Sync + 'static;
    /// The type in the exposition.
    const KIND: &str;

    /// Returns the handle to register.
    fn handle(&self) -> Self::Handle;
}

impl<N, A> TableMetric for Gauge<N, A>
where
    Self: EncodeMetric + Clone + Debug + Send + Sync + 'static,
{
    type Handle = Self;
    const KIND: &str = "gauge";

    fn handle(&self) -> Self {
        self.clone()
    }
}

impl<N, A> TableMetric for Counter<N, A>
where
    Self: EncodeMetric + Clone + Debug + Send + Sync + 'static,
{
    type Handle = Self;
    const KIND: &str = "counter";

    fn handle(&self) -> Self {
        self.clone()
    }
}

impl TableMetric for Histogram {
    type Handle = Self;
    const KIND: &str = "histogram";

    fn handle(&self) -> Self {
        self.clone()
    }
}

impl<S> TableMetric for HistogramWithExemplars<S>
where
    Self: EncodeMetric + Clone + Debug + Send + Sync + 'static,
{
    type Handle = Self;
    const KIND: &str = "histogram";

    fn handle(&self) -> Self {
        self.clone()
    }
}

impl<L, M: TableMetric, C: MetricConstructor<M>> TableMetric for Family<L, M, C>
where
    Self: EncodeMetric + Clone + Debug + Send + Sync + 'static,
{
    type Handle = Self;
    const KIND: &str = M::KIND;

    fn handle(&self) -> Self {
        self.clone()
    }
}

/// Labels that are known when the process starts and never change, such as its version. The value is always 1.
#[derive(Debug, Clone, Default)]
pub struct InfoMetric(Arc<OnceLock<Vec<(&'static str, String)>>>);

impl InfoMetric {
    /// Sets the labels. Only the first call counts.
    pub fn set<const N: usize>(&self, labels: [(&'static str, &str); N]) {
        self.0.get_or_init(|| labels.map(|(key, value)| (key, value.to_owned())).into());
    }
}

impl EncodeMetric for InfoMetric {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_info(self.0.get().unwrap_or(&Vec::new()))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Info
    }
}

impl TableMetric for InfoMetric {
    type Handle = Self;
    const KIND: &str = "info";

    fn handle(&self) -> Self {
        self.clone()
    }
}

/// Registers one field of a table.
#[doc(hidden)]
pub fn register_row<M: TableMetric>(registry: &mut Registry, name: &str, seconds: bool, help: &str, metric: &M) {
    if seconds {
        registry.register_with_unit(name, help, Unit::Seconds, metric.handle());
    } else {
        registry.register(name, help, metric.handle());
    }
}

/// Describes one field of a table.
#[doc(hidden)]
#[must_use]
pub fn describe_row<M: TableMetric>(
    (prefix, name): (&str, &str),
    seconds: bool,
    labels: &'static [&'static str],
    help: &'static str,
) -> MetricDoc {
    let unit = if seconds { "_seconds" } else { "" };
    let suffix = match M::KIND {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    MetricDoc { name: format!("{prefix}_{name}{unit}{suffix}"), kind: M::KIND, labels, help }
}

/// Declares a group of metrics. Each row is `field: Type, "name" [labels], "help";`. A `seconds` after the labels adds
/// the unit; `= expression` after the type creates the metric where its default does not suit.
///
/// The macro declares the struct, `register(&mut Registry) -> Self`, which registers every field under the prefix, and
/// `reference() -> Vec<MetricDoc>`.
///
/// ```
/// use gimbal_runtime::metrics_table;
/// use prometheus_client::metrics::counter::Counter;
/// use prometheus_client::metrics::gauge::Gauge;
/// use prometheus_client::registry::Registry;
///
/// metrics_table! {
///     /// What the demo counts.
///     struct Demo("demo") {
///         calls: Counter, "calls" [], "Calls so far";
///         age: Gauge, "age" [] seconds, "Time since the last call";
///     }
/// }
///
/// let demo = Demo::register(&mut Registry::default());
/// demo.calls.inc();
/// demo.age.set(3);
/// let names: Vec<String> = Demo::reference().into_iter().map(|metric| metric.name).collect();
/// assert_eq!(names, ["demo_calls_total", "demo_age_seconds"]);
/// ```
#[macro_export]
macro_rules! metrics_table {
    (
        $(#[$meta:meta])*
        $vis:vis struct $group:ident($prefix:literal) {
            $($field_vis:vis $field:ident: $type:ty $(= $init:expr)?, $name:literal [$($label:literal),*] $($seconds:ident)?, $help:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis struct $group {
            $($field_vis $field: $type,)*
        }

        impl $group {
            /// Creates the metrics and registers them.
            $vis fn register(registry: &mut $crate::prometheus_client::registry::Registry) -> Self {
                let group = Self { $($field: $crate::metrics_table!(@init $($init)?),)* };
                let registry = registry.sub_registry_with_prefix($prefix);
                $($crate::register_row(registry, $name, $crate::metrics_table!(@unit $($seconds)?), $help, &group.$field);)*
                group
            }

            /// Describes the metrics.
            #[must_use]
            $vis fn reference() -> Vec<$crate::MetricDoc> {
                vec![$($crate::describe_row::<$type>(
                    ($prefix, $name),
                    $crate::metrics_table!(@unit $($seconds)?),
                    &[$($label),*],
                    $help,
                )),*]
            }
        }
    };
    (@init) => { ::std::default::Default::default() };
    (@init $init:expr) => { $init };
    (@unit) => { false };
    (@unit seconds) => { true };
}
