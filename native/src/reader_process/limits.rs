//! What a reader process may use.
//!
//! A target can replace its files and fill its memory with anything while it is read. The py-spy crate maps its files
//! and follows its lists without regard to their sizes, so the kernel enforces these limits on the process in which
//! the crate runs. A normal Python needs some 10 MiB and 20 ms to attach.

use std::time::Duration;

/// To attach, or to find a runtime.
pub const ATTACH_SECONDS: u32 = 10;
/// To read stacks or names.
pub const READ_SECONDS: u32 = 2;
/// Memory on top of what the process has at its start. The sidecar attaches to four processes at a time, and its
/// container has 256 MiB.
pub const ATTACH_BYTES: u64 = 48 << 20;
/// Memory on top of what the process has once it is attached.
pub const READ_BYTES: u64 = 16 << 20;
/// Address space for files of the target: the kernel can take their pages back at any time.
pub const FILE_BYTES: u64 = 512 << 20;

/// CPU time of one reading with real-time priority. A reading that takes more goes on without it.
const REAL_TIME_US: u64 = 20_000;

/// The kernel ends the process at its alarm; this is the time until that is seen.
pub const GRACE: Duration = Duration::from_secs(1);

/// Sets up the calling process: it is the first to be ended where memory is short, and leaves no core file.
pub fn prepare_process() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    set_limit(libc::RLIMIT_CORE, 0);
    // SAFETY: these take numbers; the default action of both signals ends the process.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Lets the kernel take a real-time priority away from a reading that computes too long. Every wait begins anew.
pub fn limit_real_time() {
    extern "C" fn give_up_priority(_: i32) {
        // SAFETY: `normal` is a valid sched_param; a system call may be made in a signal handler.
        unsafe {
            let normal: libc::sched_param = std::mem::zeroed();
            libc::sched_setscheduler(0, libc::SCHED_OTHER, &normal);
        }
    }
    let handler: extern "C" fn(i32) = give_up_priority;
    // SAFETY: the handler makes one system call and nothing else.
    unsafe { libc::signal(libc::SIGXCPU, handler as libc::sighandler_t) };
    set_limit(libc::RLIMIT_RTTIME, REAL_TIME_US);
}

/// Limits memory to `bytes` more than the process has now, and mapped files to `FILE_BYTES`.
pub fn limit_memory(bytes: u64) {
    // SAFETY: takes a number. What was freed is given back, so that it is not part of the new limit.
    unsafe { libc::malloc_trim(0) };
    let [all, data] = used_bytes();
    set_limit(libc::RLIMIT_DATA, data + bytes);
    set_limit(libc::RLIMIT_AS, all + FILE_BYTES);
}

/// Ends the process unless it is called again within these seconds; 0 calls it off.
pub fn set_alarm(seconds: u32) {
    // SAFETY: takes a number.
    unsafe { libc::alarm(seconds) };
}

fn set_limit(resource: libc::__rlimit_resource_t, limit: u64) {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `now` is a valid rlimit to read and to write.
    unsafe {
        libc::getrlimit(resource, &mut now);
        now.rlim_cur = limit.min(now.rlim_max);
        libc::setrlimit(resource, &now);
    }
}

/// Bytes of address space, and of the part of it that is neither shared nor read-only (proc_pid_statm(5)).
fn used_bytes() -> [u64; 2] {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Vec<u64> = statm.split_ascii_whitespace().filter_map(|pages| pages.parse().ok()).collect();
    // SAFETY: takes a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    [0, 5].map(|field| pages.get(field).copied().unwrap_or(0) * page)
}
