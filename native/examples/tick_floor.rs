//! What the kernel takes for the system calls of a tick, without anything that a sampler makes of them:
//!
//!     cargo run --release --example tick_floor -- PID [SECONDS]
//!
//! A thread wakes up 100 times a second, as the sampler does, and makes the calls of a tick that finds one thread
//! asleep which has run since: three readings of `schedstat`, one of `syscall`, the number of threads, and the memory
//! of thread states, frames and code objects (62 places of 10 kB together, in four calls). Each line has the CPU time of
//! a tick with the calls so far.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

/// Places in each reading of memory, and bytes of each.
const READINGS: [(usize, usize); 4] = [(11, 65), (2, 1132), (42, 174), (7, 8)];
const PERIOD: Duration = Duration::from_millis(10);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let pid: i32 = arguments[1].parse().expect("PID");
    let seconds: u32 = arguments.get(2).map_or(5, |seconds| seconds.parse().expect("SECONDS"));
    // SAFETY: this request takes a number, no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
    let open = |name: &str| File::open(format!("/proc/{pid}/task/{pid}/{name}")).expect(name);
    let (schedstat, status, syscall) = (open("schedstat"), open("status"), open("syscall"));
    let tasks = File::open(format!("/proc/{pid}/task")).expect("task");
    let pages = pages(pid);
    let steps: [(&str, &dyn Fn()); 5] = [
        ("wake up", &|| {}),
        ("three readings of schedstat", &|| (0..3).for_each(|_| read(&schedstat))),
        ("syscall", &|| read(&syscall)),
        ("number of threads", &|| drop(tasks.metadata().map(|task| task.nlink()))),
        ("memory", &|| READINGS.iter().for_each(|&(count, size)| read_memory(pid, &pages, count, size))),
    ];
    for count in 1..=steps.len() {
        let cost = cost(seconds, || steps[..count].iter().for_each(|(_, step)| step()));
        println!("{:6.1} us with {}", cost, steps[count - 1].0);
    }
    println!(
        "{:6.1} us with status as well",
        cost(seconds, || {
            steps.iter().for_each(|(_, step)| step());
            read(&status);
        })
    );
}

/// The CPU time of a tick, in microseconds.
fn cost(seconds: u32, tick: impl Fn()) -> f64 {
    let began = cpu_us();
    for _ in 0..seconds * 100 {
        std::thread::sleep(PERIOD);
        tick();
    }
    (cpu_us() - began) / f64::from(seconds * 100)
}

fn read(file: &File) {
    let _ = std::hint::black_box(file.read_at(&mut [0; 2048], 0));
}

fn read_memory(pid: i32, pages: &[usize], count: usize, size: usize) {
    let mut bytes = [0u8; 8192];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: count * size };
    let remote: Vec<libc::iovec> = (0..count)
        .map(|n| libc::iovec { iov_base: pages[n * pages.len() / count] as *mut _, iov_len: size })
        .collect();
    // SAFETY: `bytes` has room for all; the kernel checks the addresses in the other process.
    let read = unsafe { libc::process_vm_readv(pid, &local, 1, remote.as_ptr(), count as _, 0) };
    assert_eq!(read, (count * size) as isize, "the memory cannot be read");
}

/// Pages of the heap and of other private memory that are in use.
fn pages(pid: i32) -> Vec<usize> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let writable = maps.lines().filter(|line| line.contains(" rw-p "));
    let starts = writable.filter_map(|line| usize::from_str_radix(line.split('-').next()?, 16).ok());
    starts.take(64).collect()
}

fn cpu_us() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
