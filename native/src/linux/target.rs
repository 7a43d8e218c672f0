//! The target process as the kernel shows it: its presence, its program image and its CPU time.

use crate::linux::memory::{Memory, RemoteMemory};
use crate::linux::os::clock_ns;
use crate::linux::proc_file::{unless_exhausted, ProcFile};
use crate::linux::threads::list_tids;
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
    /// It cannot be read now: this process is out of descriptors, or the kernel out of memory.
    Unknown,
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
    image: Image,
}

impl Target {
    /// Errors: NotFound when there is no such process, or only its zombie; those of `unless_exhausted`.
    pub fn open(pid: i32) -> io::Result<Target> {
        // The main thread's own file: the process's file adds up the times of all threads at each read.
        let stat = File::open(format!("/proc/{pid}/task/{pid}/stat"))?;
        let now = read_stat(&stat)?;
        if now.exited() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let image = now.with_living_thread(pid)?.image;
        Ok(Target { pid, stat, image })
    }

    pub fn presence(&self) -> Presence {
        match read_stat(&self.stat).and_then(|main| main.with_living_thread(self.pid)) {
            Err(error) if is_gone(&error) => Presence::Exited,
            Err(_) => Presence::Unknown,
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
        // The first page is never mapped: where permission is given, the answer is EFAULT.
        let read = RemoteMemory::new(self.pid).read(1, &mut [0]);
        let error = io::Error::last_os_error();
        match read.is_err() && error.raw_os_error() != Some(libc::EFAULT) {
            true => Err(error),
            false => Ok(()),
        }
    }
}

impl Stat {
    /// A main thread may end before the others: then it is a zombie and the process is not.
    fn exited(&self) -> bool {
        self.thread_ended() && self.threads <= 1
    }

    fn thread_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// The same. Of a main thread that ended before the others: with state and image from one that lives, if any does.
    fn with_living_thread(self, pid: i32) -> io::Result<Stat> {
        if !self.thread_ended() || self.exited() {
            return Ok(self);
        }
        Ok(living_stat(pid)?.map_or(self, |(_, living)| Stat {
            state: living.state,
            // A thread has a start time of its own.
            image: Image { start_ticks: self.image.start_ticks, ..living.image },
            ..self
        }))
    }
}

/// A thread of the process that has not ended, the main one if possible. The files of a main thread that ended show
/// no memory, program or root.
pub fn living_thread(pid: i32) -> Option<i32> {
    Some(living_stat(pid).ok()??.0)
}

fn living_stat(pid: i32) -> io::Result<Option<(i32, Stat)>> {
    let living = |tid: i32| {
        let stat = unless_exhausted(std::fs::read(format!("/proc/{pid}/task/{tid}/stat")))?;
        let stat = stat.and_then(|stat| parse_stat(&stat)).filter(|stat| !stat.thread_ended());
        Ok(stat.map(|stat| (tid, stat)))
    };
    let first = living(pid)?;
    if first.is_some() {
        return Ok(first);
    }
    let others = unless_exhausted(list_tids(pid))?.unwrap_or_default();
    others.into_iter().map(living).find_map(io::Result::transpose).transpose()
}

/// The thread that traces a thread (a process: its main thread), if any.
///
/// # Errors
/// Those of `unless_exhausted`.
pub fn tracer_of(tid: i32) -> io::Result<Option<i32>> {
    // Not UTF-8 where the program's name is not.
    let status = unless_exhausted(std::fs::read(format!("/proc/{tid}/status")))?.unwrap_or_default();
    let tracer = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"TracerPid:"));
    let tracer = tracer.and_then(|tracer| std::str::from_utf8(tracer).ok()?.trim().parse().ok());
    Ok(tracer.filter(|&tracer| tracer != 0))
}

/// Tells the CPU that a thread is on or was on last. The file of the thread that was asked about last stays open.
#[derive(Debug, Default)]
pub struct LastCpu {
    stat: Option<(i32, ProcFile)>,
}

impl LastCpu {
    /// None if unknown.
    pub fn read(&mut self, pid: i32, tid: i32) -> Option<usize> {
        let mut stat = match self.stat.take() {
            Some((known, stat)) if known == tid => stat,
            _ => ProcFile::new(format!("/proc/{pid}/task/{tid}/stat")),
        };
        let cpu = stat.read::<1024, _>(parse_cpu).ok()??;
        self.stat = Some((tid, stat));
        cpu
    }
}

/// Whether an error of a file of a process says that there is no such process.
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn read_stat(file: &File) -> io::Result<Stat> {
    let mut bytes = [0; 1024];
    let length = file.read_at(&mut bytes, 0)?;
    parse_stat(&bytes[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Fields by their number in proc_pid_stat(5).
fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let fields: Vec<&str> = fields(bytes)?.collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        state: thread_state(bytes)?,
        threads: number(20)?,
        image: Image { start_ticks: number(22)?, code_address: number(26)?, stack_address: number(28)? },
    })
}

fn parse_cpu(bytes: &[u8]) -> Option<usize> {
    fields(bytes)?.nth(39 - 3)?.parse().ok()
}

/// The fields from the third on. The command name (field 2) may hold spaces, parentheses and any bytes: they are counted
/// from its last `)`.
fn fields(bytes: &[u8]) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    let rest = bytes.get(bytes.iter().rposition(|&b| b == b')')? + 2..)?;
    Some(std::str::from_utf8(rest).ok()?.split_ascii_whitespace())
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
        assert_eq!(stat, Stat { state: b'R', threads: 3, image });
        assert_eq!(parse_cpu(line("R", 3).as_bytes()), Some(1));
        assert_eq!((parse_stat(b"7 (x"), parse_cpu(b"7 (x) R 1")), (None, None));
        assert_eq!(parse_stat(b"7 (x) R 1 2"), None);
    }

    #[test]
    fn a_zombie_has_exited_unless_other_threads_live() {
        assert!(parse_stat(line("Z", 1).as_bytes()).unwrap().exited());
        assert!(!parse_stat(line("Z", 2).as_bytes()).unwrap().exited());
    }

    #[test]
    fn only_errors_that_say_so_mean_that_a_process_is_gone() {
        let error = io::Error::from_raw_os_error;
        assert!(is_gone(&error(libc::ESRCH)) && is_gone(&error(libc::ENOENT)));
        assert!(![libc::ENOMEM, libc::EMFILE, libc::EACCES].iter().any(|&number| is_gone(&error(number))));
    }

    #[test]
    fn this_process_is_running_and_uses_cpu() {
        let target = Target::open(std::process::id() as i32).unwrap();
        assert_eq!(target.presence(), Presence::Running);
        assert!(target.cpu_ns().unwrap() > 0);
        assert_eq!(tracer_of(target.pid).unwrap(), None);
        assert_eq!(living_thread(target.pid), Some(target.pid));
    }

    #[test]
    fn the_cpu_of_a_thread_is_known_while_it_lives() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let (pid, mut last_cpu) = (child.id() as i32, LastCpu::default());
        assert!(last_cpu.read(pid, pid).is_some() && last_cpu.read(pid, pid).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((last_cpu.read(pid, pid), last_cpu.stat.is_none()), (None, true));
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
