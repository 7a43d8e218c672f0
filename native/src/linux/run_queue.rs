//! Whether a runnable thread without a CPU lost it to this sampler, or waits for one (`cpu_wait`).
//!
//! A sampler that runs on the target's CPU displaces the thread that it samples. That thread has a CPU but for the
//! sample. Two figures of the kernel tell it from a thread that waits for its turn:
//!
//! - schedstat has the time on a CPU and the time runnable without one. What is left of the time between two
//!   observations bounds the time for which the thread has been without a CPU now. Both are read anyway.
//! - `exec_start` in `/proc/PID/task/TID/sched` is the time at which the kernel last charged the thread for its CPU.
//!   The kernel charges a thread it displaces and begins to charge the sampler at the same moment. Reading it costs
//!   5 µs, and is done only if the bound does not decide.
//!
//! The bound is too high by what interrupts and a hypervisor take of the thread, which the kernel counts nowhere: on a
//! virtual machine 30 to 100 µs in 10 ms. More than that would always need `sched`. So a higher bound decides as well
//! while threads hardly wait for anybody but the sampler: `cpu_wait` is then rare, and so is a mistake.

use crate::linux::os::monotonic_ns;
use crate::linux::proc_file::{number, ProcFile};
use std::io;

/// What clocks and the parts of a context switch may differ by.
const SLACK_NS: u64 = 20_000;
/// What interrupts and a hypervisor may take of a thread between two ticks.
const INTERRUPTED_NS: u64 = 200_000;
/// Threads hardly wait for anybody but the sampler if they do so for less than this between two ticks, on average.
const RARE_DELAY_NS: u64 = 50_000;
/// The average of delays moves towards a new one by this part of the difference.
const DELAY_WEIGHT: u64 = 16;

/// The three numbers of schedstat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Up to the last context switch.
    pub on_cpu_ns: u64,
    /// Runnable without a CPU, up to the last time it was given one.
    pub delay_ns: u64,
    /// How often it was given a CPU.
    pub runs: u64,
}

/// The sampling thread's own stay on its CPU.
#[derive(Debug)]
pub struct SamplerStay {
    /// Since then it has been on its CPU, on the monotonic clock.
    pub since_ns: u64,
    /// How long the stay before this one was when the process had been sampled.
    last_length_ns: u64,
    /// How long threads waited for others between two ticks, on average.
    other_delay_ns: u64,
    sched: ProcFile,
}

impl Default for SamplerStay {
    fn default() -> SamplerStay {
        let other_delay_ns = DELAY_WEIGHT * RARE_DELAY_NS;
        SamplerStay {
            since_ns: 0,
            last_length_ns: 0,
            other_delay_ns,
            sched: ProcFile::new("/proc/thread-self/sched".into()),
        }
    }
}

impl SamplerStay {
    /// The thread has slept and is on a CPU again.
    pub fn begin(&mut self) {
        self.since_ns = monotonic_ns();
    }

    /// So long without a CPU is a thread that it displaced, at most.
    pub fn length_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.since_ns).saturating_add(SLACK_NS)
    }

    /// The process has been sampled.
    pub fn end_tick(&mut self) {
        self.last_length_ns = self.length_ns();
    }

    /// A thread has been runnable without a CPU for so long between two ticks, and was displaced at the first or not.
    pub fn add_delay(&mut self, delay_ns: u64, displaced: bool) {
        let other_ns = delay_ns.saturating_sub(if displaced { self.last_length_ns } else { 0 });
        self.other_delay_ns = (self.other_delay_ns * (DELAY_WEIGHT - 1) + other_ns) / DELAY_WEIGHT;
    }

    /// A thread that has been without a CPU for no longer than this, at most, was displaced by the sampler.
    pub fn max_displaced_ns(&self) -> u64 {
        self.length_ns() + if self.other_delay_ns < RARE_DELAY_NS { INTERRUPTED_NS } else { 0 }
    }

    /// Whether the thread with this `sched` file was on a CPU until the sampler came; None if unknown.
    ///
    /// # Errors
    /// Those of `ProcFile::read`.
    pub fn displaced(&mut self, thread: &mut ProcFile) -> io::Result<Option<bool>> {
        let (Some(thread), Some(own)) = (exec_start_ns(thread)?, exec_start_ns(&mut self.sched)?) else {
            return Ok(None);
        };
        let displaced =
            thread.saturating_add(self.length_ns()) >= own && thread <= own.saturating_add(SLACK_NS);
        Ok(Some(displaced))
    }
}

impl SchedStat {
    /// # Errors
    /// Those of `ProcFile::read`.
    pub fn read(file: &mut ProcFile) -> io::Result<Option<SchedStat>> {
        Ok(file.read::<128, _>(parse_schedstat)?.flatten())
    }

    /// The same; the outer None if the run count is `runs`, which takes less time than the three numbers.
    ///
    /// # Errors
    /// Those of `ProcFile::read`.
    pub fn read_unless(file: &mut ProcFile, runs: u64) -> io::Result<Option<Option<SchedStat>>> {
        let parse = |bytes: &[u8]| match ends_with_number(bytes, runs) {
            true => None,
            false => Some(parse_schedstat(bytes)),
        };
        Ok(file.read::<128, _>(parse)?.unwrap_or(Some(None)))
    }
}

/// Whether the kernel gives the figures for a thread. They are absent from kernels built without CONFIG_SCHED_INFO
/// or, before Linux 6.15, CONFIG_SCHED_DEBUG.
///
/// # Errors
/// Those of `ProcFile::read`.
pub fn has_figures(pid: i32, tid: i32) -> io::Result<bool> {
    let file = |name| ProcFile::new(format!("/proc/{pid}/task/{tid}/{name}"));
    Ok(SchedStat::read(&mut file("schedstat"))?.is_some_and(|stat| stat.runs > 0)
        && exec_start_ns(&mut file("sched"))?.is_some())
}

fn exec_start_ns(sched: &mut ProcFile) -> io::Result<Option<u64>> {
    Ok(sched.read::<512, _>(parse_exec_start)?.flatten())
}

/// Whether the last word of a line is this number.
fn ends_with_number(line: &[u8], number: u64) -> bool {
    let mut rest = number;
    for &byte in line.strip_suffix(b"\n").unwrap_or(line).iter().rev() {
        if byte == b' ' {
            return rest == 0;
        }
        if u64::from(byte) != u64::from(b'0') + rest % 10 {
            return false;
        }
        rest /= 10;
    }
    false
}

fn parse_schedstat(bytes: &[u8]) -> Option<SchedStat> {
    let mut numbers = bytes.trim_ascii_end().split(|&byte| byte == b' ').map(number);
    let mut next = || numbers.next().flatten();
    Some(SchedStat { on_cpu_ns: next()?, delay_ns: next()?, runs: next()? })
}

/// The line `se.exec_start : 54605016.812672`, in milliseconds.
fn parse_exec_start(bytes: &[u8]) -> Option<u64> {
    let line = bytes.split(|&byte| byte == b'\n').find(|line| line.starts_with(b"se.exec_start"))?;
    let value = line.rsplit(|&byte| byte == b' ').next()?;
    let point = value.iter().position(|&byte| byte == b'.')?;
    let (ms, ns) = (number(&value[..point])?, &value[point + 1..]);
    (ns.len() == 6).then_some(ms.checked_mul(1_000_000)? + number(ns)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_found_in_what_the_kernel_writes() {
        let stat = SchedStat { on_cpu_ns: 626_635_479, delay_ns: 1_679_736_712, runs: 182 };
        assert_eq!(parse_schedstat(b"626635479 1679736712 182\n"), Some(stat));
        assert_eq!([&b""[..], b"1 2", b"1 2 x"].map(parse_schedstat), [None; 3]);
        let sched =
            b"cat (18801, #threads: 1)\n-----\nse.exec_start      :      54605016.812672\nse.vruntime : 1.0";
        assert_eq!(parse_exec_start(sched), Some(54_605_016_812_672));
        assert_eq!(
            [&b""[..], b"se.exec_start : 5", b"se.exec_start : 5.12"].map(parse_exec_start),
            [None; 3]
        );
    }

    #[test]
    fn the_last_number_is_compared_without_the_others() {
        let same = |line: &[u8], number| ends_with_number(line, number);
        assert!(
            same(b"626635479 0 182\n", 182)
                && same(b"1 0 7", 7)
                && same(b"1 0 18446744073709551615\n", u64::MAX)
        );
        for other in [0, 2, 82, 181, 183, 1820, 1182, u64::MAX] {
            assert!(!same(b"626635479 0 182\n", other), "{other}");
        }
        assert!(!same(b"", 0) && !same(b"182", 182) && !same(b"1 0 x\n", 0) && !same(b"1 0 \n", 1));
    }

    #[test]
    fn interrupts_are_allowed_for_while_threads_hardly_wait_for_others() {
        let mut stay = SamplerStay { last_length_ns: 200_000, ..SamplerStay::default() };
        stay.begin();
        let allows = |stay: &SamplerStay| stay.max_displaced_ns() >= stay.length_ns() + INTERRUPTED_NS / 2;
        assert!(!allows(&stay));
        (0..100).for_each(|_| stay.add_delay(200_000 + RARE_DELAY_NS / 2, true));
        assert!(allows(&stay));
        stay.add_delay(3_000_000, true);
        assert!(!allows(&stay));
        (0..100).for_each(|_| stay.add_delay(200_000 + 2 * RARE_DELAY_NS, true));
        assert!(!allows(&stay));
        (0..100).for_each(|_| stay.add_delay(0, true));
        assert!(allows(&stay));
        (0..100).for_each(|_| stay.add_delay(200_000, false));
        assert!(!allows(&stay));
    }

    #[test]
    fn a_sleeping_thread_was_not_displaced() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id() as i32;
        let mut stay = SamplerStay::default();
        let mut sched = ProcFile::new(format!("/proc/{pid}/sched"));
        // It needs the CPU for its start.
        loop {
            std::thread::sleep(std::time::Duration::from_millis(1));
            stay.begin();
            if stay.displaced(&mut sched).unwrap() == Some(false) {
                break;
            }
        }
        assert!(has_figures(pid, pid).unwrap() && !has_figures(pid, 1).unwrap());
        let mut gone = ProcFile::new("/proc/0/sched".into());
        assert_eq!(stay.displaced(&mut gone).unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
