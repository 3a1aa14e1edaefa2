//! Who answers a request to a listener with L7 policies: what haproxy makes of the configuration that Octavia writes.
//!
//! Source: `octavia/common/jinja/haproxy/combined_listeners`. What is sent to haproxy is not what a rule says, see
//! [`Words::of`], and haproxy does not try policies in the order of their positions alone: first those that reject, then
//! those that redirect, then those that lead to a pool (docs/decisions/022-l7-as-haproxy-has-it.md).

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use crate::cloud::CloudModel;
use crate::data_plane::ForwardTarget;
use crate::objects::{ApiObject, Progress};
use crate::schema::ApiKind;

/// Who answers a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// A member of this pool does; if there is none, the load balancer with 503.
    Pool {
        /// The pool's ID.
        id: String,
        /// The members that take requests.
        targets: Vec<ForwardTarget>,
    },
    /// The load balancer does, and sends the client elsewhere.
    Redirect {
        /// The status.
        status: u16,
        /// The address.
        location: String,
    },
    /// The load balancer does, with this status: 403 for a policy that rejects, 503 if no pool is there.
    Status(u16),
}

/// What an HTTP listener does with requests.
#[derive(Debug, Clone)]
pub(crate) struct Frontend {
    pub(crate) port: u16,
    /// The names of the secrets that hold the certificates, the default first; empty without TLS.
    pub(crate) certificates: Vec<String>,
    policies: Vec<Policy>,
    default: Option<Pool>,
}

type Pool = (String, Vec<ForwardTarget>);

#[derive(Debug, Clone)]
struct Policy {
    rules: Vec<Rule>,
    action: Action,
}

#[derive(Debug, Clone)]
enum Action {
    Reject,
    Url(u16, String),
    Prefix(u16, String),
    Pool(Pool),
}

#[derive(Debug, Clone)]
struct Rule {
    subject: Subject,
    compare: String,
    words: Words,
    invert: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Host,
    Path,
    FileType,
    /// A header or cookie, which the requests of the model do not have.
    Absent,
}

impl CloudModel {
    /// Returns who answers a request to an HTTP listener: by the configuration of the last change that ended well. `path` may
    /// have a query. `None`: nothing listens there.
    #[must_use]
    pub fn ask(&self, balancer: &str, port: u16, host: Option<&str>, path: &str) -> Option<Answered> {
        let routing = self.routed.get(balancer)?.iter().find(|one| one.port == port)?;
        Some(routing.answer(host, path))
    }

    /// Returns the names of the secrets whose certificates a listener serves TLS with, the default first. `None`: nothing listens
    /// there.
    #[must_use]
    pub fn certificates(&self, balancer: &str, port: u16) -> Option<&[String]> {
        let routing = self.routed.get(balancer)?.iter().find(|one| one.port == port)?;
        Some(&routing.certificates)
    }

    /// Returns what a listener that haproxy serves over HTTP does with requests.
    pub(crate) fn routing(&self, id: &str, listener: &ApiObject, port: u16) -> Option<Frontend> {
        if !matches!(listener.text("protocol"), "HTTP" | "TERMINATED_HTTPS") {
            return None;
        }
        let pool = |id: &str| self.members_of(id).map(|targets| (id.to_owned(), targets));
        let is_there = |one: &&ApiObject| one.is_on("admin_state_up") && is_sent(one);
        let policies = self.store.policies_of(id);
        let policies = policies.iter().filter_map(|id| Some((id, self.store.find(id).filter(is_there)?)));
        let policies = policies.filter_map(|(id, policy)| {
            let rules = self.store.below(id, ApiKind::Rule).map(|(_, rule)| rule).filter(is_there);
            let mut rules: Vec<Rule> = rules.map(Rule::of).collect();
            // Without a rule a policy is left out, and does not take every request.
            if rules.is_empty() {
                return None;
            }
            let addresses = ["redirect_url", "redirect_prefix"].map(|key| policy.text(key));
            if addresses.iter().any(|address| is_cut(address)) {
                // The condition is part of the comment.
                rules.clear();
            }
            let code = u16::try_from(policy.number("redirect_http_code")).unwrap_or(302);
            let action = match policy.text("action") {
                "REJECT" => Action::Reject,
                "REDIRECT_TO_URL" => Action::Url(code, written(policy.text("redirect_url"))),
                "REDIRECT_PREFIX" => Action::Prefix(code, written(policy.text("redirect_prefix"))),
                _ => Action::Pool(pool(policy.text("redirect_pool_id"))?),
            };
            Some(Policy { rules, action })
        });
        let certificates = self.named_certificates(&listener.fields);
        let default = pool(listener.text("default_pool_id"));
        Some(Frontend { port, certificates, policies: policies.collect(), default })
    }

    /// Returns whether haproxy refuses the configuration: an expression was cut where a character starts a comment, and is
    /// none any more.
    pub(crate) fn is_refused(&self, balancer: &str) -> bool {
        let is_there = |one: &ApiObject| one.is_on("admin_state_up") && is_sent(one);
        if !self.store.find(balancer).is_some_and(is_there) {
            return false;
        }
        let listeners = self.store.below(balancer, ApiKind::Listener);
        let is_http = |one: &ApiObject| matches!(one.text("protocol"), "HTTP" | "TERMINATED_HTTPS");
        let listeners = listeners.filter(|(_, one)| is_http(one) && is_there(one));
        let policies = listeners.flat_map(|(id, _)| self.store.below(id, ApiKind::Policy));
        let policies = policies.filter(|(_, one)| is_there(one));
        let mut rules = policies.flat_map(|(id, _)| self.store.below(id, ApiKind::Rule));
        rules.any(|(_, rule)| is_there(rule) && rule.text("compare_type") == "REGEX" && !Words::of(rule).are_valid())
    }
}

fn is_sent(one: &ApiObject) -> bool {
    one.provisioning != Progress::PendingDelete
}

impl Frontend {
    fn answer(&self, host: Option<&str>, target: &str) -> Answered {
        let path = target.split('?').next().unwrap_or_default();
        let fits = |policy: &&Policy| policy.rules.iter().all(|rule| rule.fits(host, path));
        let first = |is: fn(&Action) -> bool| self.policies.iter().filter(|one| is(&one.action)).find(fits);
        let found = first(|action| matches!(action, Action::Reject))
            .or_else(|| first(|action| matches!(action, Action::Url(..) | Action::Prefix(..))))
            .or_else(|| first(|action| matches!(action, Action::Pool(_))));
        match found.map(|policy| &policy.action) {
            Some(Action::Reject) => Answered::Status(403),
            Some(Action::Url(status, url)) => Answered::Redirect { status: *status, location: url.clone() },
            Some(Action::Prefix(status, prefix)) => {
                Answered::Redirect { status: *status, location: format!("{prefix}{target}") }
            }
            Some(Action::Pool(pool)) => of_pool(pool),
            None => self.default.as_ref().map_or(Answered::Status(503), of_pool),
        }
    }
}

fn of_pool((id, targets): &Pool) -> Answered {
    Answered::Pool { id: id.clone(), targets: targets.clone() }
}

impl Rule {
    fn of(rule: &ApiObject) -> Self {
        let subject = match rule.text("type") {
            "HOST_NAME" => Subject::Host,
            "PATH" => Subject::Path,
            "FILE_TYPE" => Subject::FileType,
            _ => Subject::Absent,
        };
        let compare = rule.text("compare_type").to_owned();
        Self { subject, compare, words: Words::of(rule), invert: rule.is_on("invert") }
    }

    fn fits(&self, host: Option<&str>, path: &str) -> bool {
        let fits = match self.subject {
            // haproxy takes a header apart at its commas.
            Subject::Host => host.is_some_and(|host| host.split(',').any(|one| self.takes(one.trim()))),
            Subject::Path => self.takes(path),
            Subject::FileType if self.compare == "REGEX" => self.takes(path),
            Subject::FileType => self.words.texts.iter().any(|word| path.ends_with(word.as_str())),
            Subject::Absent => false,
        };
        fits != self.invert
    }

    fn takes(&self, text: &str) -> bool {
        let folded = |text: &str| if self.subject == Subject::Host { text.to_lowercase() } else { text.to_owned() };
        if self.compare == "REGEX" {
            return self.words.expressions().iter().flatten().any(|one| one.is_match(text));
        }
        let text = folded(text);
        self.words.texts.iter().map(|word| folded(word)).any(|word| match self.compare.as_str() {
            "STARTS_WITH" => text.starts_with(&word),
            "ENDS_WITH" => text.ends_with(&word),
            "CONTAINS" => text.contains(&word),
            _ => text == word,
        })
    }
}

/// What haproxy compares with: it takes what fits one of several words.
#[derive(Debug, Clone)]
struct Words {
    texts: Vec<String>,
    ignores_case: bool,
    expressions: OnceLock<Vec<Option<Regex>>>,
}

impl Words {
    /// Octavia escapes backslashes and spaces for haproxy, and then everything for HTML. So a tab is a space between words, and
    /// what follows `#` is a comment, also that of `&#34;`.
    fn of(rule: &ApiObject) -> Self {
        let texts =
            written(rule.text("value")).split('\t').map(str::to_owned).filter(|word| !word.is_empty()).collect();
        let ignores_case = rule.text("type") == "HOST_NAME";
        Self { texts, ignores_case, expressions: OnceLock::new() }
    }

    fn expressions(&self) -> &[Option<Regex>] {
        let compile = |text: &String| RegexBuilder::new(text).case_insensitive(self.ignores_case).build().ok();
        self.expressions.get_or_init(|| self.texts.iter().map(compile).collect())
    }

    fn are_valid(&self) -> bool {
        self.texts.iter().all(|text| Regex::new(text).is_ok())
    }
}

/// Returns whether a part of a text, or what it becomes, is a comment.
fn is_cut(text: &str) -> bool {
    text.contains(['#', '"', '\''])
}

/// Returns what haproxy reads where Octavia has a text.
fn written(text: &str) -> String {
    let escaped = [("&", "&amp;"), ("\"", "&#34;"), ("'", "&#39;"), ("<", "&lt;"), (">", "&gt;")];
    let text = escaped.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    text.split('#').next().unwrap_or_default().to_owned()
}
