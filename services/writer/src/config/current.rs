//! The configuration in force.

use std::sync::Arc;

use gimbal_transport::Denied;
use tokio::sync::watch;

use super::Config;

/// Replaces the configuration as a whole, and publishes it to its followers.
pub struct Current {
    config: watch::Sender<Arc<Config>>,
    denied: watch::Sender<Denied>,
}

impl Current {
    /// Starts with this configuration.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let denied = watch::Sender::new(config.denied.clone());
        Self { config: watch::Sender::new(Arc::new(config)), denied }
    }

    /// Puts this configuration in force. Streams whose certificate no longer stands for their backend end, and so does
    /// every connection whose certificate is denied.
    pub fn replace(&self, config: Config) {
        // A list that stays the same wakes no follower.
        self.denied.send_if_modified(|denied| {
            let changed = *denied != config.denied;
            denied.clone_from(&config.denied);
            changed
        });
        self.config.send_replace(Arc::new(config));
    }

    /// Returns a receiver of the whole configuration.
    #[must_use]
    pub fn config(&self) -> watch::Receiver<Arc<Config>> {
        self.config.subscribe()
    }

    /// Returns a receiver of the denied certificates, for the listener.
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
