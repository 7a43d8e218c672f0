//! The target process as the kernel shows it: its presence, its program image and its CPU time.

use crate::linux::os::clock_ns;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The state of the process, as far as it matters to sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Running,
    /// Stopped by a signal (state T): by job control, or left stopped by a tracer.
    Stopped,
    /// On its way out, or into another image: it has no memory to read.
    Leaving,
    Exited,
    /// The pid lives on, with another program image in it (execve).
    Replaced,
}

/// One process, held by an open /proc file: the pid of an exited process can be given out again, the open
/// file then answers ESRCH.
#[derive(Debug)]
pub struct Target {
    pub pid: i32,
    stat: File,
    image: Image,
}

/// What execve changes and nothing else does. The executable's path is not enough: Python replaces itself
/// by Python. Addresses are randomised per image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Image {
    start_ticks: u64,
    code_address: u64,
    stack_address: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    threads: u64,
    cpu: Option<usize>,
    image: Image,
}

impl Target {
    /// Errors: NotFound when there is no such process, or only its zombie.
    pub fn open(pid: i32) -> io::Result<Target> {
        // The main thread's own file: the process's file adds up the times of all threads at each read.
        let stat = File::open(format!("/proc/{pid}/task/{pid}/stat"))?;
        let now = read_stat(&stat)?;
        if now.exited() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Target { pid, stat, image: now.image })
    }

    pub fn presence(&self) -> Presence {
        match read_stat(&self.stat) {
            Err(_) => Presence::Exited,
            Ok(now) if now.exited() => Presence::Exited,
            Ok(now) if now.image.stack_address == 0 => Presence::Leaving,
            Ok(now) if now.image != self.image => Presence::Replaced,
            Ok(now) if now.state == b'T' => Presence::Stopped,
            Ok(_) => Presence::Running,
        }
    }

    /// CPU time of all its threads, ended ones included, in nanoseconds; None once it is gone.
    pub fn cpu_ns(&self) -> Option<u64> {
        // Linux's clock id of another process's CPU clock, as clock_getcpuclockid(3) makes it.
        const CPUCLOCK_SCHED: i32 = 2;
        clock_ns((!self.pid << 3) | CPUCLOCK_SCHED)
    }

    /// Checks with the kernel that this process may read the memory of the target: the same permission as ptrace.
    ///
    /// Not by opening /proc/PID/mem: that is refused by file mode as well, to a root that has SYS_PTRACE and
    /// no DAC_OVERRIDE, which is what a sidecar has.
    pub fn check_trace_permission(&self) -> io::Result<()> {
        let mut byte = 0u8;
        let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        // The first page is never mapped: where permission is given, the answer is EFAULT.
        let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(1), iov_len: 1 };
        // SAFETY: at most one byte is written, into `byte`.
        let read = unsafe { libc::process_vm_readv(self.pid, &local, 1, &remote, 1, 0) };
        let error = io::Error::last_os_error();
        match read < 0 && error.raw_os_error() != Some(libc::EFAULT) {
            true => Err(error),
            false => Ok(()),
        }
    }
}

impl Stat {
    /// A main thread may end before the others: then it is a zombie and the process is not.
    fn exited(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }
}

/// The thread that traces a thread (a process: its main thread), if any.
pub fn tracer_of(tid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|&tracer| tracer != 0)
}

/// The CPU that a thread is on or was on last.
pub fn last_cpu(pid: i32, tid: i32) -> Option<usize> {
    let stat = std::fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    parse_stat(&stat)?.cpu
}

fn read_stat(file: &File) -> io::Result<Stat> {
    let mut bytes = [0; 1024];
    let length = file.read_at(&mut bytes, 0)?;
    parse_stat(&bytes[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Fields by their number in proc_pid_stat(5).
fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    // The command name (field 2) may hold spaces, parentheses and any bytes: count from its last `)`.
    let rest = bytes.get(bytes.iter().rposition(|&b| b == b')')? + 2..)?;
    let fields: Vec<&str> = std::str::from_utf8(rest).ok()?.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: thread_state(bytes)?,
        threads: number(20)?,
        cpu: number(39).and_then(|cpu| usize::try_from(cpu).ok()),
        image: Image { start_ticks: number(22)?, code_address: number(26)?, stack_address: number(28)? },
    })
}

/// The state letter (field 3) of a stat file's bytes.
pub fn thread_state(bytes: &[u8]) -> Option<u8> {
    bytes.get(bytes.iter().rposition(|&b| b == b')')? + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(state: &str, threads: u64) -> String {
        format!(
            "7 (a) b) {state} 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 {threads} 0 900 1 2 \
             18446744073709551615 4096 8192 140000 0 0 0 0 0 0 0 0 0 17 1"
        )
    }

    #[test]
    fn stat_is_read_by_field_whatever_the_command_is_called() {
        let stat = parse_stat(line("R", 3).as_bytes()).unwrap();
        let image = Image { start_ticks: 900, code_address: 4096, stack_address: 140_000 };
        assert_eq!(stat, Stat { state: b'R', threads: 3, cpu: Some(1), image });
        assert_eq!(parse_stat(b"7 (x"), None);
        assert_eq!(parse_stat(b"7 (x) R 1 2"), None);
    }

    #[test]
    fn a_zombie_has_exited_unless_other_threads_live() {
        assert!(parse_stat(line("Z", 1).as_bytes()).unwrap().exited());
        assert!(!parse_stat(line("Z", 2).as_bytes()).unwrap().exited());
    }

    #[test]
    fn this_process_is_running_and_uses_cpu() {
        let target = Target::open(std::process::id() as i32).unwrap();
        assert_eq!(target.presence(), Presence::Running);
        assert!(target.cpu_ns().unwrap() > 0);
        assert_eq!(tracer_of(target.pid), None);
    }

    #[test]
    fn an_ended_process_is_seen_as_exited_before_and_after_it_is_reaped() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let target = Target::open(child.id() as i32).unwrap();
        drop(child.stdin.take());
        while target.presence() != Presence::Exited {
            std::thread::yield_now();
        }
        assert!(Target::open(target.pid).is_err());
        child.wait().unwrap();
        assert_eq!(target.presence(), Presence::Exited);
        assert_eq!(target.cpu_ns(), None);
    }
}
