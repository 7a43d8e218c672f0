//! How long stops may take, and how long they took.

use std::time::Duration;

/// How long a stop may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopLimits {
    /// From the first request until all threads have stopped. A thread that waits for a CPU is not harmed by it.
    pub max_wait: Duration,
    /// For which any thread may be stopped.
    pub max_stop: Duration,
}

impl Default for StopLimits {
    fn default() -> StopLimits {
        StopLimits { max_wait: Duration::from_millis(10), max_stop: Duration::from_millis(2) }
    }
}

/// How often threads of the target were stopped, and for how long, from the last moment at which they may have run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopStats {
    pub stops: u64,
    pub stopped_ns: u64,
    pub longest_ns: u64,
    /// Those that lasted longer than they may.
    pub over_limit: u64,
    /// The most CPU time of the sampling thread in one of them. A longer stop lasted because the kernel ran others.
    pub longest_cpu_ns: u64,
}

impl StopStats {
    pub fn add(&mut self, more: StopStats) {
        self.stops += more.stops;
        self.stopped_ns += more.stopped_ns;
        self.over_limit += more.over_limit;
        self.longest_ns = self.longest_ns.max(more.longest_ns);
        self.longest_cpu_ns = self.longest_cpu_ns.max(more.longest_cpu_ns);
    }

    /// One stop, during which the sampling thread used so much CPU time.
    pub fn one(stopped_ns: u64, cpu_ns: u64, max_stop: Duration) -> StopStats {
        StopStats {
            stops: 1,
            stopped_ns,
            longest_ns: stopped_ns,
            over_limit: u64::from(u128::from(stopped_ns) > max_stop.as_nanos()),
            longest_cpu_ns: cpu_ns.min(stopped_ns),
        }
    }
}
