//! The CPU that the sampling thread runs on: preferably the one on which its next target works.
//!
//! A thread that runs on another CPU has to be stopped with ptrace before it can be read. A thread that loses its
//! CPU to the sampler cannot run while it is read, needs no ptrace, and has its memory in that CPU's caches. So the
//! sampling thread waits for its next tick on the CPU on which the target last ran. It does so only with a
//! real-time priority: without one it would get that CPU when the target waits, and would only ever see the target
//! wait.

use std::mem::{size_of, zeroed};

/// The affinity of the calling thread. Only that thread may use it.
#[derive(Debug)]
pub struct CpuAffinity {
    /// The CPUs that it may run on; None if unknown.
    allowed: Option<libc::cpu_set_t>,
    /// The CPU that it is pinned to.
    pinned: Option<usize>,
}

impl CpuAffinity {
    pub fn of_this_thread() -> CpuAffinity {
        // SAFETY: a cpu_set_t of zeros is an empty set, and valid to write to.
        let allowed = unsafe {
            let mut allowed: libc::cpu_set_t = zeroed();
            (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed) == 0).then_some(allowed)
        };
        CpuAffinity { allowed, pinned: None }
    }

    /// Pins the thread to a CPU; with None, to all CPUs that it may run on.
    pub fn pin(&mut self, cpu: Option<usize>) {
        let Some(allowed) = self.allowed.filter(|_| cpu != self.pinned) else { return };
        let only = cpu.filter(|&cpu| cpu < libc::CPU_SETSIZE as usize).and_then(|cpu| {
            // SAFETY: the number is within the set.
            unsafe {
                let mut only: libc::cpu_set_t = zeroed();
                libc::CPU_SET(cpu, &mut only);
                libc::CPU_ISSET(cpu, &allowed).then_some(only)
            }
        });
        // The CPUs of a container may have changed: then it runs on all that it may.
        self.pinned = cpu.filter(|_| only.is_some_and(|only| set_affinity(&only)));
        if self.pinned.is_none() {
            set_affinity(&allowed);
        }
    }
}

fn set_affinity(cpus: &libc::cpu_set_t) -> bool {
    // SAFETY: `cpus` is a valid set of the size that is told.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) == 0 }
}

/// The CPU that this thread is on.
pub fn current_cpu() -> Option<usize> {
    // SAFETY: takes no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<usize> {
        let cpus = CpuAffinity::of_this_thread().allowed.unwrap();
        // SAFETY: the numbers are within the set.
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &cpus) }).collect()
    }

    #[test]
    fn a_thread_goes_to_a_cpu_and_back_to_all_of_them() {
        std::thread::spawn(|| {
            let all = allowed();
            let mut affinity = CpuAffinity::of_this_thread();
            for &cpu in &all {
                affinity.pin(Some(cpu));
                assert_eq!((affinity.pinned, current_cpu(), allowed()), (Some(cpu), Some(cpu), vec![cpu]));
            }
            affinity.pin(None);
            assert_eq!((affinity.pinned, allowed()), (None, all.clone()));
            // It never was allowed to.
            affinity.pin(all.last().map(|last| last + 1));
            affinity.pin(Some(usize::MAX));
            assert_eq!((affinity.pinned, allowed()), (None, all));
        })
        .join()
        .unwrap();
    }
}
