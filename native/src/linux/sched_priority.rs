//! The scheduling priority of the sampling thread.
//!
//! On a busy machine a sampler without priority gets the CPU when its target gives it up, so it finds the target
//! idle too often. If it loses the CPU during a stop, the target's thread stays stopped until the sampler runs
//! again. The thread therefore requests a real-time priority, which needs CAP_SYS_NICE. Without it, it requests
//! short time slices, which make the scheduler run a thread soon after it wakes (sched_setattr(2), Linux 6.12 and
//! later; older kernels ignore it). A tick takes microseconds. If ticks use too much CPU, the thread gives the
//! priority back until they do not. It has the priority in every stop, where it is allowed: a stop is short.

use std::cell::Cell;
use std::mem::{size_of, zeroed};

/// Long enough for a tick.
const SLICE_NS: u64 = 500_000;
/// How often the CPU share of the thread is reviewed.
const REVIEW_NS: u64 = 100_000_000;
/// Above the first share the thread gives up its real-time priority, below the second it gets it back.
const MAX_CPU_SHARE: f64 = 0.5;
const RESTORE_CPU_SHARE: f64 = 0.25;

thread_local! {
    /// Whether this thread has a real-time priority; None if it is not allowed or has not requested one.
    static REAL_TIME: Cell<Option<bool>> = const { Cell::new(None) };
}

/// A priority of this thread that lasts until this is dropped.
#[derive(Debug)]
pub struct TemporaryPriority {
    before: bool,
}

/// Gives this thread its real-time priority; None if it has it, or may not.
pub fn raise() -> Option<TemporaryPriority> {
    change(true)
}

/// Takes the real-time priority from this thread; None if it has none.
pub fn lower() -> Option<TemporaryPriority> {
    change(false)
}

fn change(real_time: bool) -> Option<TemporaryPriority> {
    let before = REAL_TIME.get().filter(|&before| before != real_time)?;
    set(real_time);
    Some(TemporaryPriority { before })
}

fn set(real_time: bool) -> bool {
    let real_time = real_time && set_real_time();
    if !real_time {
        set_short_slices();
    }
    REAL_TIME.set(Some(real_time));
    real_time
}

impl Drop for TemporaryPriority {
    fn drop(&mut self) {
        set(self.before);
    }
}

/// The priority of the calling thread. Only that thread may use it.
#[derive(Debug)]
pub struct SchedPriority {
    /// None: not allowed.
    real_time: Option<bool>,
    reviewed_ns: u64,
    cpu_ns: u64,
}

impl SchedPriority {
    pub fn request() -> SchedPriority {
        set_short_slices();
        let real_time = set_real_time().then_some(true);
        REAL_TIME.set(real_time);
        SchedPriority { real_time, reviewed_ns: 0, cpu_ns: 0 }
    }

    /// Whether the thread gets a CPU as soon as it wants one.
    pub fn is_real_time(&self) -> bool {
        self.real_time == Some(true)
    }

    /// To be called now and then with the time and the thread's CPU time.
    pub fn review(&mut self, now_ns: u64, cpu_ns: u64) {
        let Some(real_time) = self.real_time else { return };
        let passed_ns = now_ns.saturating_sub(self.reviewed_ns);
        if passed_ns < REVIEW_NS {
            return;
        }
        let share = cpu_ns.saturating_sub(self.cpu_ns) as f64 / passed_ns as f64;
        (self.reviewed_ns, self.cpu_ns) = (now_ns, cpu_ns);
        self.real_time = match real_time {
            true if share > MAX_CPU_SHARE => Some(set(false)),
            false if share < RESTORE_CPU_SHARE => Some(set(true)),
            unchanged => Some(unchanged),
        };
    }
}

/// The lowest real-time priority. Children of the process do not inherit it.
fn set_real_time() -> bool {
    // SAFETY: `lowest` is a valid sched_param.
    unsafe {
        let mut lowest: libc::sched_param = zeroed();
        lowest.sched_priority = libc::sched_get_priority_min(libc::SCHED_RR);
        libc::sched_setscheduler(0, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &lowest) == 0
    }
}

/// In place of a real-time priority, if there was one.
fn set_short_slices() {
    /// struct sched_attr, version 0.
    #[repr(C)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    // SAFETY: getpriority takes no pointers; `attr` is a valid sched_attr of the size it states.
    unsafe {
        let tid = libc::gettid();
        let attr = SchedAttr {
            size: size_of::<SchedAttr>() as u32,
            policy: libc::SCHED_OTHER as u32,
            flags: 0,
            nice: libc::getpriority(libc::PRIO_PROCESS, tid as libc::id_t),
            priority: 0,
            runtime_ns: SLICE_NS,
            deadline_ns: 0,
            period_ns: 0,
        };
        libc::syscall(libc::SYS_sched_setattr, tid, &attr, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> i32 {
        // SAFETY: takes no pointers.
        unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
    }

    #[test]
    fn a_thread_goes_first_if_it_may_and_for_as_long_as_it_needs_little() {
        let review = |priority: &mut SchedPriority, second: u64, share: f64| {
            let cpu_ns = priority.cpu_ns + (share * 1e9) as u64;
            priority.review(second * 1_000_000_000, cpu_ns);
            (priority.real_time, policy())
        };
        std::thread::spawn(move || {
            let mut priority = SchedPriority::request();
            if priority.real_time.is_none() {
                assert_eq!(review(&mut priority, 1, 0.9), (None, libc::SCHED_OTHER));
                assert!(raise().is_none() && lower().is_none());
                return;
            }
            assert_eq!(review(&mut priority, 1, 0.01), (Some(true), libc::SCHED_RR));
            assert_eq!(review(&mut priority, 2, 0.4), (Some(true), libc::SCHED_RR));
            assert_eq!(review(&mut priority, 3, 0.6), (Some(false), libc::SCHED_OTHER));
            assert_eq!(review(&mut priority, 4, 0.4), (Some(false), libc::SCHED_OTHER));
            assert_eq!(review(&mut priority, 5, 0.1), (Some(true), libc::SCHED_RR));
            priority.review(5_050_000_000, 1 << 60);
            assert_eq!(policy(), libc::SCHED_RR);
            // For a long observation, and for a stop in the middle of it.
            assert!(raise().is_none());
            let lowered = lower();
            assert_eq!((lowered.is_some(), policy()), (true, libc::SCHED_OTHER));
            let raised = raise();
            assert_eq!((raised.is_some(), policy()), (true, libc::SCHED_RR));
            drop(raised);
            assert_eq!(policy(), libc::SCHED_OTHER);
            drop(lowered);
            assert_eq!(policy(), libc::SCHED_RR);
        })
        .join()
        .unwrap();
    }
}
