//! Programs that print what happens until they are stopped.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use anyhow::Context as _;
use serde_json::Value;

use crate::SOON;

/// A program whose JSON is read as it prints it, until this value is dropped.
pub struct Watching {
    child: Child,
    events: Receiver<Value>,
}

impl Watching {
    /// Starts the program.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let out = BufReader::new(child.stdout.take().context("it has no output")?);
        let (sender, events) = channel();
        std::thread::spawn(move || {
            // grpcurl prints each message over several lines.
            let mut text = String::new();
            for line in out.lines().map_while(Result::ok) {
                text.push_str(&line);
                let Ok(event) = serde_json::from_str(&text) else { continue };
                text.clear();
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, events })
    }

    /// Waits for what it prints next.
    ///
    /// # Panics
    /// Nothing comes.
    #[must_use]
    pub fn next(&self) -> Value {
        self.events.recv_timeout(SOON).unwrap_or_else(|error| panic!("nothing came: {error}"))
    }

    /// Waits until it prints something like this.
    ///
    /// # Panics
    /// Nothing more comes.
    pub fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.next();
            if wanted(&event) {
                return event;
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
