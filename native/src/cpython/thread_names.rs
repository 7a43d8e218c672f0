//! The names that a program gave its threads.

use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Threads without a name that the program knows of (a C library's) are asked for no more often than this.
const PAUSE: Duration = Duration::from_secs(1);

/// Thread names of one process, by pthread_t. The py-spy crate finds them; nothing is stopped for it.
pub struct Names {
    spy: PythonSpy,
    known: HashMap<u64, Arc<str>>,
    /// Whether samples are counted by these names, or only the timed ones bear them.
    pub counted: bool,
    looked: Option<Instant>,
}

impl Names {
    pub fn of(pid: i32, counted: bool) -> anyhow::Result<Names> {
        let config = Config {
            blocking: LockingStrategy::NonBlocking,
            include_idle: true,
            collect_thread_names: true,
            ..Config::default()
        };
        Ok(Names { spy: PythonSpy::new(pid, &config)?, known: HashMap::new(), counted, looked: None })
    }

    /// Learns the names of these threads and forgets those of others.
    pub fn learn(&mut self, threads: &[u64]) {
        // A pthread_t is soon given to another thread.
        self.known.retain(|id, _| threads.contains(id));
        let unknown = threads.iter().any(|id| !self.known.contains_key(id));
        if !unknown || self.looked.is_some_and(|looked| looked.elapsed() < PAUSE) {
            return;
        }
        self.looked = Some(Instant::now());
        self.spy.python_thread_names.clear();
        // Fails now and then, as the process goes on meanwhile; the names may be there all the same.
        let _ = self.spy.get_stack_traces();
        for (id, name) in &self.spy.python_thread_names {
            if let Some(name) = name.as_deref().filter(|_| threads.contains(id)) {
                self.known.entry(*id).or_insert_with(|| name.into());
            }
        }
    }

    pub fn get(&self, thread: u64) -> Option<Arc<str>> {
        self.known.get(&thread).cloned()
    }
}
