//! Which CPU the sampling thread runs on: that of the thread it is going to read, where it may go first.
//!
//! A thread that works on another CPU has to be stopped to be read. One whose CPU is taken away stands still by
//! itself, without ptrace, for as long as the reading lasts; and what it has in memory is in that CPU's caches.
//! So the sampling thread waits for its next tick on the CPU on which it last found that process at work. It must
//! be sure to get it at once: without a real-time priority it would wait until the process pauses, and see
//! nothing but pauses.

use std::mem::{size_of, zeroed};

/// Of the thread that made it, which is the only one to use it.
#[derive(Debug)]
pub struct Place {
    /// The CPUs that it may run on; None if that cannot be told.
    allowed: Option<libc::cpu_set_t>,
    /// The only one it runs on now.
    at: Option<usize>,
}

impl Place {
    pub fn here() -> Place {
        // SAFETY: a cpu_set_t of zeros is an empty set, and valid to write to.
        let allowed = unsafe {
            let mut allowed: libc::cpu_set_t = zeroed();
            (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed) == 0).then_some(allowed)
        };
        Place { allowed, at: None }
    }

    /// Goes to a CPU and stays there, or, with None, wherever the kernel wants.
    pub fn go(&mut self, cpu: Option<usize>) {
        let Some(allowed) = self.allowed.filter(|_| cpu != self.at) else { return };
        let only = cpu.filter(|&cpu| cpu < libc::CPU_SETSIZE as usize).and_then(|cpu| {
            // SAFETY: the number is within the set.
            unsafe {
                let mut only: libc::cpu_set_t = zeroed();
                libc::CPU_SET(cpu, &mut only);
                libc::CPU_ISSET(cpu, &allowed).then_some(only)
            }
        });
        // A container's CPUs may have become others: then it runs where it is allowed to.
        self.at = cpu.filter(|_| only.is_some_and(|only| run_on(&only)));
        if self.at.is_none() {
            run_on(&allowed);
        }
    }
}

fn run_on(cpus: &libc::cpu_set_t) -> bool {
    // SAFETY: `cpus` is a valid set of the size that is told.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) == 0 }
}

/// The CPU that this thread is on.
pub fn cpu() -> Option<usize> {
    // SAFETY: takes no arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> Vec<usize> {
        let cpus = Place::here().allowed.unwrap();
        // SAFETY: the numbers are within the set.
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &cpus) }).collect()
    }

    #[test]
    fn a_thread_goes_to_a_cpu_and_back_to_all_of_them() {
        std::thread::spawn(|| {
            let all = allowed();
            let mut place = Place::here();
            for &there in &all {
                place.go(Some(there));
                assert_eq!((place.at, cpu(), allowed()), (Some(there), Some(there), vec![there]));
            }
            place.go(None);
            assert_eq!((place.at, allowed()), (None, all.clone()));
            // It never was allowed to.
            place.go(all.last().map(|last| last + 1));
            place.go(Some(usize::MAX));
            assert_eq!((place.at, allowed()), (None, all));
        })
        .join()
        .unwrap();
    }
}
