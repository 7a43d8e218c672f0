//! The system call that a sleeping thread is in, from `/proc/PID/task/TID/syscall`.
//!
//! The file belongs to the target's user and has mode 0400, so root needs the capability DAC_READ_SEARCH for it beside
//! SYS_PTRACE. Reading it costs 2 µs. A thread that is not asleep reads as `running`, whether it has a CPU or not.

use crate::linux::proc_file::ProcFile;
use std::io;

/// Longer lines do not exist: nine numbers.
const MAX_BYTES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    pub number: i64,
    /// The first two.
    pub arguments: [usize; 2],
}

/// What a thread that is asleep in a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The futex at this address: a lock, or the GIL.
    Futex(usize),
    /// A lock of files, or between processes.
    Lock,
    /// Any of some descriptors.
    Poll,
    /// One socket, pipe or file, or a disk.
    Io,
    /// A point in time.
    Sleep,
    /// The call that a stop interrupted, of which the number is lost.
    Restarted,
    /// Something else: a child process, a signal, a device.
    Other,
}

impl SystemCall {
    /// None of a thread that is not asleep in a call.
    ///
    /// # Errors
    /// Those of `ProcFile::read`.
    pub fn read(file: &mut ProcFile) -> io::Result<Option<SystemCall>> {
        Ok(file.read::<MAX_BYTES, _>(parse)?.flatten())
    }

    pub fn wait(self) -> Wait {
        let [first, second] = self.arguments;
        // The numbers of descriptors are of 32 bits; more of the register means nothing.
        let poll_of = |descriptors: usize| if descriptors as u32 == 0 { Wait::Sleep } else { Wait::Poll };
        match self.number {
            libc::SYS_futex => Wait::Futex(first),
            libc::SYS_ppoll => poll_of(second),
            libc::SYS_pselect6 => poll_of(first),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_poll => poll_of(second),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select => poll_of(first),
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Wait::Sleep,
            libc::SYS_restart_syscall => Wait::Restarted,
            number if POLLS.contains(&number) => Wait::Poll,
            number if LOCKS.contains(&number) => Wait::Lock,
            number if TRANSFERS.contains(&number) || FILE_CALLS.contains(&number) => Wait::Io,
            _ => Wait::Other,
        }
    }

    /// What a thread waits for that is asleep without reacting to signals (state D): a disk, unless it has made a
    /// process that has not yet started its program.
    pub fn uninterruptible_wait(call: Option<SystemCall>) -> Wait {
        match call {
            Some(call) if MAKERS_OF_PROCESSES.contains(&call.number) => Wait::Other,
            _ => Wait::Io,
        }
    }
}

impl Wait {
    /// Whether a thread waits for it in state S, so that its state need not be read.
    pub fn implies_state_s(self) -> bool {
        matches!(self, Wait::Futex(_) | Wait::Poll | Wait::Sleep)
    }
}

const POLLS: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
];

/// An `fcntl` that waits is F_SETLKW or F_OFD_SETLKW.
const LOCKS: &[i64] =
    &[libc::SYS_futex_waitv, libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_flock, libc::SYS_fcntl];

/// Calls that move bytes or connections.
const TRANSFERS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_vmsplice,
    libc::SYS_copy_file_range,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
];

/// Calls that open, look up, change or write out files.
const FILE_CALLS: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_getdents64,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync,
    libc::SYS_syncfs,
    libc::SYS_sync_file_range,
    libc::SYS_msync,
];

const MAKERS_OF_PROCESSES: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_clone,
    libc::SYS_clone3,
];

/// Whether the file may be read, of any thread of a process. A thread of another process that is being traced cannot.
///
/// # Errors
/// Those of `ProcFile::read`.
pub fn has_system_calls(pid: i32, tid: i32) -> io::Result<bool> {
    Ok(ProcFile::new(path(pid, tid)).read::<MAX_BYTES, _>(|bytes| !bytes.is_empty())?.unwrap_or(false))
}

pub fn path(pid: i32, tid: i32) -> String {
    format!("/proc/{pid}/task/{tid}/syscall")
}

/// A line like `202 0x7f33cc01 0x189 ...`; `running`, and `-1 0x7ffd 0x7f33` of a thread that is in no call.
fn parse(bytes: &[u8]) -> Option<SystemCall> {
    let mut words = bytes.split(|byte| byte.is_ascii_whitespace());
    let number = std::str::from_utf8(words.next()?).ok()?.parse().ok().filter(|&number| number >= 0)?;
    let mut argument = || {
        let digits = std::str::from_utf8(words.next()?).ok()?.strip_prefix("0x")?;
        usize::from_str_radix(digits, 16).ok()
    };
    Some(SystemCall { number, arguments: [argument()?, argument()?] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_and_its_first_arguments_are_found_in_what_the_kernel_writes() {
        let line = b"202 0x7f33cc01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd7f20 0x7f33cd7f\n";
        assert_eq!(parse(line), Some(SystemCall { number: 202, arguments: [0x7f33_cc01, 0x189] }));
        assert_eq!(
            [&b"running\n"[..], b"-1 0x7ffd 0x7f33\n", b"", b"7 x\n", b"7", b"7 0x1\n"].map(parse),
            [None; 6]
        );
    }

    #[test]
    fn a_call_tells_what_a_thread_waits_for() {
        let wait = |number, first, second| SystemCall { number, arguments: [first, second] }.wait();
        assert_eq!(wait(libc::SYS_futex, 0x7f33, 0x89), Wait::Futex(0x7f33));
        for (number, expected) in [
            (libc::SYS_clock_nanosleep, Wait::Sleep),
            (libc::SYS_epoll_pwait, Wait::Poll),
            (libc::SYS_flock, Wait::Lock),
            (libc::SYS_semtimedop, Wait::Lock),
            (libc::SYS_recvfrom, Wait::Io),
            (libc::SYS_openat, Wait::Io),
            (libc::SYS_fsync, Wait::Io),
            (libc::SYS_wait4, Wait::Other),
            (libc::SYS_rt_sigtimedwait, Wait::Other),
            (libc::SYS_restart_syscall, Wait::Restarted),
        ] {
            assert_eq!(wait(number, 7, 7), expected, "{number}");
        }
        // The upper half of a register that holds an int may hold anything.
        let nothing = 0x7f33_0000_0000;
        assert_eq!(
            (wait(libc::SYS_ppoll, 7, nothing), wait(libc::SYS_ppoll, 0, 1)),
            (Wait::Sleep, Wait::Poll)
        );
        assert_eq!(
            (wait(libc::SYS_pselect6, nothing, 7), wait(libc::SYS_pselect6, 1, 0)),
            (Wait::Sleep, Wait::Poll)
        );
    }

    #[test]
    fn a_thread_that_reacts_to_no_signal_waits_for_a_disk_or_for_its_child() {
        let of = |number| SystemCall::uninterruptible_wait(Some(SystemCall { number, arguments: [0, 0] }));
        assert_eq!(
            [of(libc::SYS_mmap), of(libc::SYS_clone), SystemCall::uninterruptible_wait(None)],
            [Wait::Io, Wait::Other, Wait::Io]
        );
    }

    #[test]
    fn the_futex_that_a_sleeping_thread_waits_for_is_known() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let futex = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let address = std::sync::Arc::as_ptr(&futex) as usize;
        let thread = std::thread::spawn(move || {
            // SAFETY: it takes no arguments.
            sender.send(unsafe { libc::gettid() }).unwrap();
            // SAFETY: the word lives as long as this call.
            unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAIT, 0, 0usize) };
        });
        let (pid, tid) = (std::process::id() as i32, receiver.recv().unwrap());
        let mut file = ProcFile::new(path(pid, tid));
        while SystemCall::read(&mut file).unwrap().map(SystemCall::wait) != Some(Wait::Futex(address)) {
            std::thread::yield_now();
        }
        assert!(has_system_calls(pid, tid).unwrap() && !has_system_calls(pid, 1).unwrap());
        futex.store(1, std::sync::atomic::Ordering::SeqCst);
        // SAFETY: the word lives until the thread has ended.
        unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAKE, 1) };
        thread.join().unwrap();
    }
}
