//! The names that a program gave its threads.

use crate::reader_process::client::{ReaderProcess, ReaderProcesses};
use crate::reader_process::messages::{Answer, Reply, Request};
use crate::stacks::stack_reader::Failure;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum time between two readings of names: some threads (a C library's) never have one.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// The sampling thread waits no longer for names: they can be there at the next tick.
const MAX_WAIT: Duration = Duration::from_millis(5);
/// Longer names are cut.
const MAX_CHARACTERS: usize = 256;

/// Thread names of one process, by pthread_t. The py-spy crate finds them, in a reader process; nothing is stopped
/// for it.
pub struct ThreadNames {
    process: ReaderProcess,
    names: FxHashMap<u64, Arc<str>>,
    /// Whether samples are counted by these names, or only the timed samples have them.
    pub used_for_counts: bool,
    read_at: Option<Instant>,
}

impl ThreadNames {
    pub fn new(pid: i32, processes: &ReaderProcesses, used_for_counts: bool) -> Result<ThreadNames, Failure> {
        let mut process = processes.start()?;
        if let Err(message) = process.call(Request::AttachForNames { pid })?.result {
            return Err(Failure::new("other", &message));
        }
        // From the first sample on, a thread has one name: else it would count as two.
        let reply = process.call(Request::ReadNames)?;
        let mut names = ThreadNames { process, names: FxHashMap::default(), used_for_counts, read_at: None };
        names.add(reply, |_| true);
        Ok(names)
    }

    /// Adds the names of a reply, of the threads that `is_wanted` accepts.
    fn add(&mut self, reply: Reply, is_wanted: impl Fn(u64) -> bool) {
        if let Ok(Answer::Names(names)) = reply.result {
            for (id, name) in names.into_iter().filter(|(id, _)| is_wanted(*id)) {
                let name = || name.chars().take(MAX_CHARACTERS).collect::<String>().into();
                self.names.entry(id).or_insert_with(name);
            }
        }
    }

    /// Reads the names of these threads and drops those of others.
    ///
    /// # Errors
    /// If the reader process has ended.
    pub fn update(&mut self, threads: &[u64]) -> Result<(), Failure> {
        // A pthread_t is soon given to another thread.
        self.names.retain(|id, _| threads.contains(id));
        if !self.process.is_pending() {
            let unknown = threads.iter().any(|id| !self.names.contains_key(id));
            if !unknown || self.read_at.is_some_and(|read_at| read_at.elapsed() < MIN_INTERVAL) {
                return Ok(());
            }
            self.read_at = Some(Instant::now());
            self.process.send(Request::ReadNames)?;
        }
        let wait = if self.read_at.is_some_and(|sent| sent.elapsed() < MAX_WAIT) {
            MAX_WAIT
        } else {
            Duration::ZERO
        };
        if let Some(reply) = self.process.receive(Instant::now() + wait)? {
            self.add(reply, |id| threads.contains(&id));
        }
        Ok(())
    }

    /// CPU time of the reader process since the last call, in nanoseconds.
    pub fn take_cpu_ns(&mut self) -> u64 {
        self.process.take_cpu_ns()
    }

    pub fn get(&self, thread: u64) -> Option<Arc<str>> {
        self.names.get(&thread).cloned()
    }
}
