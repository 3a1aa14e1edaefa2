//! The configuration that is in force.

use std::sync::Arc;

use gimbal_transport::Denied;
use tokio::sync::watch;

use super::Config;

/// Where the configuration is replaced, as a whole, and handed to those who follow it.
pub struct Current {
    config: watch::Sender<Arc<Config>>,
    denied: watch::Sender<Denied>,
}

impl Current {
    /// Starts with this one.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let denied = watch::Sender::new(config.denied.clone());
        Self { config: watch::Sender::new(Arc::new(config)), denied }
    }

    /// From now on this one is in force: a stream whose certificate does not stand for its backend any more ends, and so
    /// does every connection whose certificate is denied.
    pub fn replace(&self, config: Config) {
        // A list that stays the same wakes nobody.
        self.denied.send_if_modified(|denied| {
            let changed = *denied != config.denied;
            denied.clone_from(&config.denied);
            changed
        });
        self.config.send_replace(Arc::new(config));
    }

    /// For those who need all of it.
    #[must_use]
    pub fn config(&self) -> watch::Receiver<Arc<Config>> {
        self.config.subscribe()
    }

    /// For the door.
    #[must_use]
    pub fn denied(&self) -> watch::Receiver<Denied> {
        self.denied.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_list_that_stays_the_same_wakes_nobody() {
        let read = |text: &str| Config::parse(Path::new("writer.yaml"), text).unwrap();
        let text = "denyCertificates: ['serial:a1']\nbackends: [{name: a, identity: a}]";
        let current = Current::new(read(text));
        let (mut config, mut denied) = (current.config(), current.denied());
        current.replace(read(text));
        assert!(config.has_changed().unwrap() && !denied.has_changed().unwrap());
        current.replace(read("{}"));
        assert!(config.borrow_and_update().backends.is_empty());
        assert!(denied.has_changed().unwrap() && *denied.borrow_and_update() == Denied::default());
    }
}
