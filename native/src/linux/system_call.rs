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
    pub first_argument: usize,
}

impl SystemCall {
    /// None of a thread that is not asleep in a call.
    ///
    /// # Errors
    /// Those of `ProcFile::read`.
    pub fn read(file: &mut ProcFile) -> io::Result<Option<SystemCall>> {
        Ok(file.read::<MAX_BYTES, _>(parse)?.flatten())
    }

    /// The address of the futex that the thread waits for, if it does.
    pub fn futex(self) -> Option<usize> {
        (self.number == libc::SYS_futex).then_some(self.first_argument)
    }
}

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
    let argument = std::str::from_utf8(words.next()?).ok()?.strip_prefix("0x")?;
    Some(SystemCall { number, first_argument: usize::from_str_radix(argument, 16).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_and_its_first_argument_are_found_in_what_the_kernel_writes() {
        let line = b"202 0x7f33cc01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd7f20 0x7f33cd7f\n";
        assert_eq!(parse(line), Some(SystemCall { number: 202, first_argument: 0x7f33_cc01 }));
        assert_eq!([&b"running\n"[..], b"-1 0x7ffd 0x7f33\n", b"", b"7 x\n", b"7"].map(parse), [None; 5]);
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
        while SystemCall::read(&mut file).unwrap().and_then(SystemCall::futex) != Some(address) {
            std::thread::yield_now();
        }
        assert!(has_system_calls(pid, tid).unwrap() && !has_system_calls(pid, 1).unwrap());
        futex.store(1, std::sync::atomic::Ordering::SeqCst);
        // SAFETY: the word lives until the thread has ended.
        unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAKE, 1) };
        thread.join().unwrap();
    }
}
