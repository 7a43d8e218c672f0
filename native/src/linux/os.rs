//! Clocks, and the setup of the sampling thread.

/// Reads a clock in nanoseconds; None if there is no such clock (any more).
pub fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) } != 0;
    (!failed).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

pub fn unix_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME).unwrap_or(0)
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// Sets up the calling thread for sampling.
pub fn become_sampling_thread() {
    block_signals();
    wake_on_time();
}

/// Leaves all signals to the other threads of the process.
fn block_signals() {
    // SAFETY: `all` is a valid signal set, filled before it is used.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

/// By default the kernel delays a wake-up by up to 50 µs to merge it with others, such as timers of the target:
/// the target would be sampled just when it begins to work.
fn wake_on_time() {
    // SAFETY: this request takes a number, no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}
