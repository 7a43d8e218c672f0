//! The names that a program gave its threads.

use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum time between two readings of names: some threads (a C library's) never have one.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Thread names of one process, by pthread_t. The py-spy crate finds them; nothing is stopped for it.
pub struct ThreadNames {
    spy: PythonSpy,
    names: HashMap<u64, Arc<str>>,
    /// Whether samples are counted by these names, or only the timed samples have them.
    pub used_for_counts: bool,
    read_at: Option<Instant>,
}

impl ThreadNames {
    pub fn new(pid: i32, used_for_counts: bool) -> anyhow::Result<ThreadNames> {
        let config = Config {
            blocking: LockingStrategy::NonBlocking,
            include_idle: true,
            collect_thread_names: true,
            ..Config::default()
        };
        Ok(ThreadNames {
            spy: PythonSpy::new(pid, &config)?,
            names: HashMap::new(),
            used_for_counts,
            read_at: None,
        })
    }

    /// Reads the names of these threads and drops those of others.
    pub fn update(&mut self, threads: &[u64]) {
        // A pthread_t is soon given to another thread.
        self.names.retain(|id, _| threads.contains(id));
        let unknown = threads.iter().any(|id| !self.names.contains_key(id));
        if !unknown || self.read_at.is_some_and(|read_at| read_at.elapsed() < MIN_INTERVAL) {
            return;
        }
        self.read_at = Some(Instant::now());
        self.spy.python_thread_names.clear();
        // Fails now and then, as the process goes on meanwhile; the names may be there all the same.
        let _ = self.spy.get_stack_traces();
        for (id, name) in &self.spy.python_thread_names {
            if let Some(name) = name.as_deref().filter(|_| threads.contains(id)) {
                self.names.entry(*id).or_insert_with(|| name.into());
            }
        }
    }

    pub fn get(&self, thread: u64) -> Option<Arc<str>> {
        self.names.get(&thread).cloned()
    }
}
