//! Lines on their way to standard error. A thread of its own writes them, so that a reader that does not read (a full
//! pipe) or has gone (a closed one) delays no other task. Lines that do not fit are counted, and the count is logged
//! once there is room.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Most lines that may be pending.
const ROOM: usize = 8192;

/// The sending end of the queue. Clones share one queue.
#[derive(Clone)]
pub(crate) struct LogLines(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    more: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Vec<u8>>,
    /// Whether a line is being written.
    writing: bool,
    lost: u64,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        // No code under this lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogLines {
    /// Starts the thread that writes to `out`; it ends with the process.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub(crate) fn start(mut out: impl Write + Send + 'static) -> std::io::Result<Self> {
        let lines = Self(Arc::default());
        let queue = lines.0.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            loop {
                let (line, lost) = {
                    let mut state = queue.state();
                    state.writing = false;
                    queue.done.notify_all();
                    let ready = queue.more.wait_while(state, |state| state.waiting.is_empty());
                    state = ready.unwrap_or_else(PoisonError::into_inner);
                    state.writing = true;
                    (state.waiting.pop_front().unwrap_or_default(), std::mem::take(&mut state.lost))
                };
                if lost > 0 {
                    let notice = format!("{lost} lines of this log are lost: its reader is too slow\n");
                    out.write_all(notice.as_bytes()).ok();
                }
                // A failure to write cannot be reported anywhere.
                out.write_all(&line).and_then(|()| out.flush()).ok();
            }
        })?;
        Ok(lines)
    }

    pub(crate) fn push(&self, line: &[u8]) {
        let mut state = self.0.state();
        if state.waiting.len() < ROOM {
            state.waiting.push_back(line.to_vec());
        } else {
            state.lost += 1;
        }
        self.0.more.notify_one();
    }

    /// Waits until everything is written, and no longer than `limit`.
    pub(crate) fn flush(&self, limit: Duration) {
        let under_way = |state: &mut QueueState| state.writing || !state.waiting.is_empty();
        // A poisoned lock or a time-out ends the wait as well.
        drop(self.0.done.wait_timeout_while(self.0.state(), limit, under_way));
    }
}

impl Write for LogLines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Read as _, pipe};

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn lines_come_in_order_and_a_reader_that_is_gone_delays_no_one() {
        let (mut reader, writer) = pipe().unwrap();
        let lines = LogLines::start(writer).unwrap();
        lines.push(b"one\n");
        lines.push(b"two\n");
        lines.flush(LIMIT);
        let mut read = [0; 8];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"one\ntwo\n");
        drop(reader);
        lines.push(b"three\n");
        lines.flush(LIMIT);
        lines.push(b"four\n");
        lines.flush(LIMIT);
    }

    #[test]
    fn a_reader_that_does_not_read_delays_no_one_and_hears_what_it_missed() {
        let (reader, writer) = pipe().unwrap();
        let lines = LogLines::start(writer).unwrap();
        // A pipe takes 64 KiB.
        let line = format!("{}\n", "x".repeat(1000));
        for _ in 0..ROOM + 200 {
            lines.push(line.as_bytes());
        }
        lines.flush(Duration::from_millis(1));
        let notice = BufReader::new(reader).lines().map(Result::unwrap).find(|line| line.contains("are lost")).unwrap();
        let lost: usize = notice.split(' ').next().unwrap().parse().unwrap();
        assert!((1..=200).contains(&lost), "{notice}");
    }
}
