//! Hosts and paths of rules, as routes compare them.

use std::cmp::{Ordering, Reverse};

use gimbal_kubernetes_objects::HttpIngressPath;
use gimbal_kuryr_crd::KlrPathType;
use gimbal_kuryr_model::Text;

use super::{HostProblem, PathProblem};

/// Which hosts a rule takes. In the order in which they are tried: names, then wildcards, longer ones first, then any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    /// This host.
    Exact(Text),
    /// Hosts with one label before this name.
    Wildcard(Text),
    /// Any.
    Any,
}

/// Which paths a rule takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Path {
    /// This path.
    Exact(Text),
    /// Paths that begin with it, by segments. It has no slash at its end, and is not empty.
    Prefix(Text),
    /// Any.
    Any,
}

impl Host {
    fn rank(&self) -> (u8, Reverse<usize>, &str) {
        match self {
            Self::Exact(host) => (0, Reverse(0), host),
            Self::Wildcard(host) => (1, Reverse(host.len()), host),
            Self::Any => (2, Reverse(0), ""),
        }
    }

    /// Reads a host. Names compare without regard to case, so they become lower case.
    pub(crate) fn read(host: Option<&Text>) -> Result<Self, HostProblem> {
        let Some(host) = host.filter(|host| !host.is_empty()) else { return Ok(Self::Any) };
        let host = Self::of_name(host).ok_or(HostProblem::NotAName)?;
        // Around the name stand what it begins and ends with, a port, and the label that a star stands for.
        let len = match &host {
            Self::Exact(name) => escaped_len(name) + 13,
            Self::Wildcard(name) => escaped_len(name) + 20,
            Self::Any => 0,
        };
        if len > MOST_EXPRESSION { Err(HostProblem::TooLong) } else { Ok(host) }
    }

    /// Reads the name of a host or a wildcard, however long it is; `None` for what is neither.
    pub(crate) fn of_name(name: &Text) -> Option<Self> {
        let host: Text = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            name.to_ascii_lowercase().into()
        } else {
            name.clone()
        };
        match host.strip_prefix("*.") {
            Some(base) => is_host(base).then(|| Self::Wildcard(base.into())),
            None => is_host(&host).then_some(Self::Exact(host)),
        }
    }

    /// As an Ingress writes it; `None` for any.
    pub(crate) fn text(&self) -> Option<Text> {
        match self {
            Self::Exact(host) => Some(host.clone()),
            Self::Wildcard(host) => Some(format!("*.{host}").into()),
            Self::Any => None,
        }
    }

    /// The wildcard that a host falls to.
    pub(crate) fn wildcard(&self) -> Option<Self> {
        match self {
            Self::Exact(host) => host.split_once('.').map(|(_, rest)| Self::Wildcard(rest.into())),
            Self::Wildcard(_) | Self::Any => None,
        }
    }
}

impl PartialOrd for Host {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Host {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl Path {
    /// Exact ones first, then the longer ones.
    pub(crate) fn rank(&self) -> (u8, Reverse<usize>) {
        match self {
            Self::Exact(path) => (0, Reverse(path.len())),
            Self::Prefix(path) => (1, Reverse(path.len())),
            Self::Any => (2, Reverse(0)),
        }
    }

    /// Reads the path of a rule. `ImplementationSpecific` is a prefix.
    pub(crate) fn read(rule: &HttpIngressPath) -> Result<Self, PathProblem> {
        let path = rule.path.as_ref().filter(|path| !path.is_empty());
        let is_exact = match rule.path_type.as_deref() {
            Some("Exact") => true,
            Some("Prefix" | "ImplementationSpecific") | None => false,
            Some(_) => return Err(PathProblem::Type),
        };
        let Some(path) = path else { return Ok(Self::Any) };
        if let Some(problem) = path_problem(path) {
            return Err(problem);
        }
        let read = if is_exact { Self::Exact(path.clone()) } else { Self::prefix(path) };
        if read.expression_len() > MOST_EXPRESSION { Err(PathProblem::TooLong) } else { Ok(read) }
    }

    /// A prefix counts by its segments, so that a slash at its end says nothing.
    pub(crate) fn prefix(path: &Text) -> Self {
        match path.trim_end_matches('/') {
            "" => Self::Any,
            shorter if shorter.len() == path.len() => Self::Prefix(path.clone()),
            shorter => Self::Prefix(shorter.into()),
        }
    }

    /// As a route writes it.
    pub(crate) fn text(&self) -> Option<(Text, KlrPathType)> {
        match self {
            Self::Exact(path) => Some((path.clone(), KlrPathType::Exact)),
            Self::Prefix(path) => Some((path.clone(), KlrPathType::Prefix)),
            Self::Any => None,
        }
    }

    /// Bytes of the value that a rule for it has.
    fn expression_len(&self) -> usize {
        match self {
            Self::Exact(path) => path.len(),
            // With what it begins and ends with: `^/a(/|$)`.
            Self::Prefix(path) => escaped_len(path) + 6,
            Self::Any => 0,
        }
    }
}

/// Octavia's limit for the value of a rule.
const MOST_EXPRESSION: usize = 255;

/// Bytes of a text in an expression, in which some of its characters are escaped.
fn escaped_len(text: &str) -> usize {
    text.bytes().map(|byte| if br"\.+*?()|[]{}^$".contains(&byte) { 2 } else { 1 }).sum()
}

/// What the configuration of Octavia's load balancers takes as it is. Its template writes some characters as HTML does, and a
/// quotation mark or `#` that it left alone would end the value there.
fn path_problem(path: &str) -> Option<PathProblem> {
    if !path.starts_with('/') {
        return Some(PathProblem::NoSlash);
    }
    let is_good = |one: char| one.is_ascii_graphic() && !"\"'#&<>".contains(one);
    (!path.chars().all(is_good)).then_some(PathProblem::Characters)
}

/// Whether a text is a host name in lower case.
fn is_host(text: &str) -> bool {
    let is_address = text.parse::<std::net::IpAddr>().is_ok();
    !text.is_empty() && text.len() <= 253 && !is_address && text.split('.').all(is_label)
}

/// Whether a text is one label of a host name.
pub(crate) fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}
