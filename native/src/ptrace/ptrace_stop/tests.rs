use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

fn piped(program: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// A shell that has printed `ready`, and a function that reads its next line.
fn shell(script: &str) -> (Child, impl FnMut() -> String) {
    let mut child = piped("sh", &["-c", script]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = move || lines.next().unwrap().unwrap();
    assert_eq!(next(), "ready");
    (child, next)
}

fn letter(child: &Child) -> u8 {
    state(child.id() as i32, child.id() as i32).unwrap().unwrap()
}

fn becomes(child: &Child, letters: &[u8]) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !letters.contains(&letter(child)) {
        assert!(Instant::now() < deadline, "still {:?}", letter(child) as char);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn kill(child: &Child, signal: i32) {
    // SAFETY: kill takes no pointers.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// Limits that no busy machine reaches.
const PATIENT: StopLimits =
    StopLimits { max_wait: Duration::from_secs(30), max_stop: Duration::from_secs(30) };

fn patient(child: &Child) -> Stopper {
    Stopper::new(child.id() as i32, PATIENT)
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_thread_stands_still_until_the_stop_is_dropped_and_the_time_is_counted() {
    let child = piped("cat", &[]);
    let mut stopper = patient(&child);
    for all in [false, true] {
        let tid = child.id() as i32;
        let stop = if all { stopper.stop().unwrap() } else { stopper.stop_these(&[tid]).unwrap() };
        assert_eq!(letter(&child), b't');
        drop(stop);
        becomes(&child, b"SR");
        assert!(stopper.last_stop_ns > 0);
    }
    assert_eq!(stopper.stops.stops, 2);
    assert!(stopper.stops.longest_ns <= stopper.stops.stopped_ns);
    assert_eq!(tracer_of(child.id() as i32).unwrap(), None);
    assert!(stopper.release_pending());
    end(child);
}

#[test]
fn too_many_threads_for_the_time_of_a_stop_are_let_go_and_counted() {
    const THREADS: &str = "import threading as t\nwait = t.Event().wait\n\
        for n in range(100): t.Thread(target=wait).start()\nprint('ready', flush=True)\nwait()";
    let mut child = piped("python3", &["-c", THREADS]);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = child.id() as i32;
    let mut stopper = patient(&child);
    assert_eq!(stopper.stop().unwrap().threads().count(), 101);
    stopper.limits.max_stop = Duration::from_nanos(3);
    assert_eq!(stopper.stop().err().map(|refusal| refusal.kind()), Some("slow"));
    let deadline = Instant::now() + Duration::from_secs(30);
    while !stopper.release_pending() {
        assert!(Instant::now() < deadline);
    }
    let traced = |tid: &i32| tracer_of(*tid).unwrap().is_some();
    assert_eq!(threads::list_tids(pid).unwrap().iter().filter(|tid| traced(tid)).count(), 0);
    assert!(stopper.stops.stops >= 2);
    assert!(stopper.stops.longest_cpu_ns <= stopper.stops.longest_ns);
    end(child);
}

#[test]
fn a_signal_that_comes_with_the_stop_is_handed_on() {
    let (child, mut next) = shell("trap 'echo got' USR1; echo ready; while :; do :; done");
    let mut stopper = patient(&child);
    for _ in 0..50 {
        kill(&child, libc::SIGUSR1);
        drop(stopper.stop_these(&[child.id() as i32]).unwrap());
        assert_eq!(next(), "got");
    }
    end(child);
}

#[test]
fn a_process_that_somebody_stops_meanwhile_stays_stopped_until_it_is_continued() {
    let child = piped("sh", &["-c", "while :; do :; done"]);
    let mut stopper = patient(&child);
    for _ in 0..20 {
        let stop = stopper.stop_these(&[child.id() as i32]).unwrap();
        kill(&child, libc::SIGSTOP);
        drop(stop);
        becomes(&child, b"T");
        // A stopped thread can be stopped as well, and is let go into the same state.
        drop(stopper.stop_these(&[child.id() as i32]).unwrap());
        becomes(&child, b"T");
        let stop = stopper.stop_these(&[child.id() as i32]).unwrap();
        kill(&child, libc::SIGCONT);
        drop(stop);
        becomes(&child, b"R");
    }
    end(child);
}

#[test]
fn a_process_that_another_tracer_holds_is_refused_by_that_name() {
    let child = piped("cat", &[]);
    let tid = child.id() as i32;
    let (seized, is_seized) = std::sync::mpsc::channel();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || {
        let mut stopper = Stopper::new(tid, PATIENT);
        let stop = stopper.stop_these(&[tid]);
        seized.send(stop.is_ok()).unwrap();
        let _ = is_done.recv();
    });
    assert!(is_seized.recv().unwrap());
    let mut stopper = patient(&child);
    assert_eq!(stopper.stop_these(&[tid]).unwrap_err().kind(), "traced");
    assert_eq!(stopper.stop().unwrap_err().kind(), "traced");
    drop(done);
    other.join().unwrap();
    assert!(stopper.stop_these(&[tid]).is_ok());
    end(child);
}

#[test]
fn a_process_that_is_killed_while_it_stands_still_can_be_reaped() {
    let child = piped("cat", &[]);
    let mut stopper = patient(&child);
    let stop = stopper.stop_these(&[child.id() as i32]).unwrap();
    kill(&child, libc::SIGKILL);
    drop(stop);
    becomes(&child, b"Z");
    assert_eq!(stopper.stop_these(&[child.id() as i32]).unwrap_err().kind(), "leaving");
    assert_eq!(stopper.stop().unwrap_err().kind(), "leaving");
    end(child);
}

#[test]
fn the_exit_of_a_seized_process_is_told_to_a_parent_elsewhere() {
    // The shell waits for its child, whose pid it prints.
    let (parent, mut next) =
        shell("echo ready; sh -c 'echo $$; while :; do :; done' 2>/dev/null; echo over; read _");
    let pid: i32 = next().parse().unwrap();
    let wait = Duration::from_secs(30);
    let mut stopper = Stopper::new(pid, StopLimits { max_wait: wait, max_stop: wait });
    let stop = stopper.stop_these(&[pid]).unwrap();
    // SAFETY: kill takes no pointers.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    drop(stop);
    let deadline = Instant::now() + wait;
    while !stopper.release_pending() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(next(), "over");
    end(parent);
}

#[test]
fn a_process_whose_threads_are_killed_as_they_are_looked_at_can_be_reaped() {
    // How a thread is found to have ended depends on the moment: it is met anew each time.
    for _ in 0..40 {
        let child = threaded();
        let pid = child.id() as i32;
        let others: Vec<i32> =
            threads::list_tids(pid).unwrap().into_iter().filter(|&tid| tid != pid).collect();
        assert_eq!(others.len(), 3);
        for &tid in &others {
            ptrace(libc::PTRACE_SEIZE, tid, 0).unwrap();
        }
        kill(&child, libc::SIGKILL);
        let deadline = Instant::now() + Duration::from_secs(30);
        for &tid in &others {
            while matches!(poll_with_state(pid, tid), PollResult::Pending) {
                assert!(Instant::now() < deadline);
            }
        }
        reap(child);
    }
}

const THREE_THREADS: &str = "
import threading
for _ in range(3):
    threading.Thread(target=threading.Event().wait).start()
print(flush=True)
";

/// A process with three threads beside the main one, all of which wait.
fn threaded() -> Child {
    let mut child = piped("python3", &["-Sc", THREE_THREADS]);
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    child
}

/// Fails where `wait` would never return.
fn reap(mut child: Child) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "a zombie that cannot be reaped");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process whose main thread sleeps as after vfork (state D) until a line is written to it.
fn in_vfork() -> (i32, std::fs::File) {
    let mut ends = [0; 2];
    // SAFETY: the child only makes system calls; `ends` has room for two descriptors.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let pid = libc::fork();
        if pid == 0 {
            libc::close(ends[1]);
            libc::syscall(libc::SYS_clone, libc::CLONE_VFORK | libc::SIGCHLD, 0, 0, 0, 0);
            // First the child of the child, which lets its parent go by ending; then that one.
            let mut byte = 0u8;
            libc::read(ends[0], (&raw mut byte).cast(), 1);
            libc::_exit(0);
        }
        libc::close(ends[0]);
        (pid, std::os::fd::FromRawFd::from_raw_fd(ends[1]))
    }
}

#[test]
fn a_thread_that_cannot_stop_is_given_up_in_time_and_let_go_when_it_does() {
    let (pid, mut release) = in_vfork();
    let deadline = Instant::now() + Duration::from_secs(30);
    while state(pid, pid).unwrap() != Some(b'D') {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    let mut stopper = Stopper::new(pid, StopLimits::default());
    assert_eq!(stopper.stop_these(&[pid]).unwrap_err().kind(), "unstoppable");
    assert_eq!(stopper.stop_these(&[pid]).unwrap_err().kind(), "unstoppable");
    assert_eq!(stopper.stop().unwrap_err().kind(), "unstoppable");
    assert!(!stopper.release_pending());
    assert_eq!(stopper.stops, StopStats::default());
    release.write_all(b"\n").unwrap();
    while !stopper.release_pending() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    assert_eq!(tracer_of(pid).unwrap(), None);
    stopper.limits = PATIENT;
    assert!(stopper.stop_these(&[pid]).is_ok());
    release.write_all(b"\n").unwrap();
    let mut status = 0;
    // SAFETY: `status` is valid to write to.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
}

/// A process that makes the thread stop with a signal on its way in, sees it, and is killed.
fn sees_it_and_dies(tid: i32, signal: i32) {
    // SAFETY: system calls only, as after a fork of a process with threads.
    unsafe {
        let tracer = libc::fork();
        if tracer == 0 {
            let seized = ptrace(libc::PTRACE_SEIZE, tid, 0).is_ok() && libc::kill(tid, signal) == 0;
            while seized && !matches!(poll(tid, tid), PollResult::Stopped(got) if got == signal) {}
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
        assert_eq!(libc::waitpid(tracer, std::ptr::null_mut(), 0), tracer);
    }
}

#[test]
fn a_signal_arrives_though_the_sampler_is_killed_with_it_in_its_hands() {
    let (mut child, mut next) = shell("trap 'echo got; exit' USR1; echo ready; read line; echo lost");
    sees_it_and_dies(child.id() as i32, libc::SIGUSR1);
    // It may have ended.
    let _ = child.stdin.take().unwrap().write_all(b"\n");
    assert_eq!(next(), "got");
    end(child);
}

/// What a stop does to a thread that waits in a system call.
#[cfg(target_arch = "x86_64")]
mod syscall_restart {
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
        let mut stopper = Stopper::new(pid, StopLimits { max_wait: wait, max_stop: wait });
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
