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
    /// connect(2): the operation that they began continues.
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
