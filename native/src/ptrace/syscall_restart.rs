//! Restarting a system call that a ptrace stop interrupted.
//!
//! A thread that is stopped inside a system call leaves it. The kernel restarts most calls itself. Some (signal(7),
//! "Interruption of system calls and library functions by stop signals") return EINTR instead, which C code seldom
//! expects where no signal was sent. The stopped thread had the GIL microseconds ago, so such a wait has just
//! begun, and restarting it loses no time that matters.
//!
//! To restart the call its result is set to the kernel's own ERESTARTNOHAND: restart, unless a signal has to be
//! handled first; then it is EINTR again.

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    /// linux/errno.h; never seen by programs.
    const ERESTARTNOHAND: i64 = 514;
    /// sys/user.h: places of registers in `struct user`, in bytes.
    const RAX: usize = 80;
    const ORIG_RAX: usize = 120;

    /// Calls that do nothing before they wait, and return EINTR where no handler ran. Not close(2) and
    /// connect(2): what they began goes on.
    const RESTARTABLE: [libc::c_long; 18] = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_write,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_msgrcv,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_io_getevents,
    ];

    pub fn restart_interrupted(tid: i32) {
        if peek(tid, RAX) != Some(-i64::from(libc::EINTR)) {
            return;
        }
        if peek(tid, ORIG_RAX).is_some_and(|call| RESTARTABLE.contains(&call)) {
            let result = -ERESTARTNOHAND as usize;
            // SAFETY: writes a register of a stopped thread; no memory of this process is touched.
            unsafe { libc::ptrace(libc::PTRACE_POKEUSER, tid, RAX, result) };
        }
    }

    /// A register of a stopped thread.
    fn peek(tid: i32, register: usize) -> Option<i64> {
        let mut value = 0i64;
        // The system call itself stores the value where its last argument points; the C function returns it.
        // SAFETY: `value` has room for the word that is written.
        let failed = unsafe {
            libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKUSER, tid, register, &raw mut value) < 0
        };
        (!failed).then_some(value)
    }
}

/// Restarts the interrupted wait of a stopped thread. Elsewhere than on x86-64 the call's first argument is
/// lost by then, and nothing is done.
pub fn restart_interrupted(tid: i32) {
    #[cfg(target_arch = "x86_64")]
    x86_64::restart_interrupted(tid);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = tid;
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use crate::ptrace::ptrace_stop::{StopLimits, Stopper};
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::FromRawFd;
    use std::time::{Duration, Instant};

    extern "C" fn nothing(_: libc::c_int) {}

    fn pipe() -> [i32; 2] {
        let mut ends = [0; 2];
        // SAFETY: `ends` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
        ends
    }

    /// A process that waits for a byte with epoll, with a handler for SIGUSR1, and tells what the wait gave: its
    /// pid, what to write to, what to read from.
    fn waiting() -> (i32, File, File) {
        let (events, results) = (pipe(), pipe());
        // SAFETY: the child only makes system calls, on what it was given; the ends are nobody else's.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
                libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
                libc::close(events[1]);
                let epoll = libc::epoll_create1(0);
                let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
                libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, events[0], &mut event);
                loop {
                    let got = libc::epoll_wait(epoll, &mut event, 1, 60_000);
                    let result = if got < 0 { -*libc::__errno_location() } else { got } as i8;
                    libc::write(results[1], (&raw const result).cast(), 1);
                    let mut byte = 0u8;
                    if got > 0 && libc::read(events[0], (&raw mut byte).cast(), 1) == 0 {
                        libc::_exit(0);
                    }
                }
            }
            libc::close(events[0]);
            libc::close(results[1]);
            (pid, File::from_raw_fd(events[1]), File::from_raw_fd(results[0]))
        }
    }

    fn is_waiting(pid: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/syscall"))
            .is_ok_and(|call| call.starts_with(&format!("{} ", libc::SYS_epoll_wait)))
    }

    #[test]
    fn a_wait_goes_on_after_a_stop_and_ends_as_it_would_have() {
        let (pid, mut events, mut results) = waiting();
        let mut next = || {
            let mut result = [0];
            results.read_exact(&mut result).unwrap();
            result[0] as i8
        };
        let wait = Duration::from_secs(30);
        let deadline = Instant::now() + wait;
        let until_it_waits = || {
            while !is_waiting(pid) {
                assert!(Instant::now() < deadline);
                std::thread::yield_now();
            }
        };
        let mut stopper = Stopper::with_limits(pid, StopLimits { max_wait: wait, max_stop: wait });
        for _ in 0..20 {
            until_it_waits();
            drop(stopper.stop_these(&[pid]).unwrap());
        }
        events.write_all(b"x").unwrap();
        assert_eq!(next(), 1);
        // A signal that comes with the stop interrupts the wait as ever.
        until_it_waits();
        let stop = stopper.stop_these(&[pid]).unwrap();
        // SAFETY: kill takes no pointers.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGUSR1) }, 0);
        drop(stop);
        assert_eq!(i32::from(next()), -libc::EINTR);
        drop(events);
        let mut status = 0;
        // SAFETY: `status` is valid to write to.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert_eq!(status, 0);
    }
}
