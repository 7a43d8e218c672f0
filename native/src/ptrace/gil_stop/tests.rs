use super::*;
use crate::ptrace::ptrace_stop::StopLimits;
use crate::stacks::stack_interner::StackId;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const MAIN: usize = 1;
/// Address of the only thread's state.
const THREAD: usize = 16;

/// Tells of a real process what a script says.
struct Scripted {
    tid: i32,
    /// Who holds the GIL at each look at it; the last one stays.
    holders: Vec<usize>,
    gil_looks: usize,
    /// Does it go from one to another between any two looks?
    switching: bool,
    /// The first readings fail, in passing.
    incomplete: usize,
    /// Is what the thread does at each reading another thing?
    changing: bool,
    interpreters: Vec<usize>,
    /// Without a GIL: does the thread run Python code?
    attached: Option<bool>,
    left_out: Vec<i32>,
    /// What was readings at each reading: does the process stand still, has it run since the last one?
    readings: Vec<(bool, bool)>,
    /// Does the process still stand still while stacks are built of each reading?
    held: Vec<bool>,
}

impl Scripted {
    fn is_stopped(&self) -> bool {
        let stat = std::fs::read(format!("/proc/{}/stat", self.tid)).unwrap();
        crate::linux::target::thread_state(&stat) == Some(b't')
    }

    fn thread(&self, interpreter: usize, interner: &mut StackInterner) -> ThreadStack {
        let line = if self.changing { self.readings.len() as i32 } else { 1 };
        let frame =
            interner.intern_frame(&crate::stacks::frame_text::Call { function: "f", file: "f.py", line });
        ThreadStack {
            thread_id: 7,
            native_id: Some(self.tid),
            interpreter,
            owns_gil: false,
            active: self.attached == Some(true),
            stack: interner.intern_stack(&[frame], 9).0,
            truncated: false,
            failed: false,
        }
    }
}

impl StackReader for Scripted {
    fn interpreters(&mut self) -> Result<Vec<usize>, Failure> {
        Ok(self.interpreters.clone())
    }

    fn max_depth(&self) -> usize {
        9
    }

    fn gil(&mut self, _: usize) -> Result<GilState, Failure> {
        let holder = self.holders[self.gil_looks.min(self.holders.len() - 1)];
        self.gil_looks += 1;
        let switches = if self.switching { self.gil_looks as u64 } else { 0 };
        Ok(GilState { holder, native_id: Some(if holder == THREAD { self.tid } else { 1 }), switches })
    }

    fn read_and_verify(
        &mut self,
        interpreter: usize,
        ran: &mut dyn FnMut(i32) -> bool,
        interner: &mut StackInterner,
        verify: &mut Verify<'_>,
    ) -> Result<Stacks, Failure> {
        self.readings.push((self.is_stopped(), ran(self.tid)));
        if self.readings.len() <= self.incomplete {
            return Err(Failure::transient("read", &"a call was being entered"));
        }
        let gil = self.gil(MAIN)?;
        let is_left_out = self.attached == Some(true) && self.left_out.contains(&self.tid);
        let mut threads = [(7, Some(self.tid))].into_iter().filter(|_| !is_left_out);
        let gil_now = &mut || self.gil(MAIN);
        let verified = verify(MemoryReading { gil, threads: &mut threads, gil_now });
        self.held.push(self.is_stopped());
        verified?;
        let thread = self.thread(interpreter, interner);
        Ok(Stacks { threads: vec![ThreadStack { failed: is_left_out, ..thread }], gil })
    }

    fn has_gil(&self) -> bool {
        self.attached.is_none()
    }

    fn leave_out(&mut self, native_ids: Vec<i32>) {
        self.left_out = native_ids;
    }

    fn read_thread(
        &mut self,
        interpreter: usize,
        _: u64,
        interner: &mut StackInterner,
        release: &mut dyn FnMut(),
    ) -> Result<ThreadStack, Failure> {
        self.readings.push((self.is_stopped(), true));
        release();
        self.held.push(self.is_stopped());
        Ok(self.thread(interpreter, interner))
    }
}

struct Bench {
    child: Child,
    reader: Scripted,
    threads: Threads,
    stopper: Stopper,
    interner: StackInterner,
}

impl Bench {
    fn of(program: &str, arguments: &[&str]) -> Bench {
        let child = Command::new(program).args(arguments).stdin(Stdio::piped()).spawn().unwrap();
        let tid = child.id() as i32;
        let wait = Duration::from_secs(30);
        Bench {
            child,
            reader: Scripted {
                tid,
                holders: vec![0],
                gil_looks: 0,
                switching: false,
                incomplete: 0,
                changing: false,
                interpreters: vec![MAIN],
                attached: None,
                left_out: Vec::new(),
                readings: Vec::new(),
                held: Vec::new(),
            },
            threads: Threads::new(tid).unwrap(),
            stopper: Stopper::new(tid, StopLimits { max_wait: wait, max_stop: wait }),
            interner: StackInterner::new(100),
        }
    }

    /// A process that waits all the time.
    fn asleep() -> Bench {
        Bench::of("cat", &[]).fall_asleep()
    }

    /// One of two threads that wait all the time.
    fn two_asleep() -> Bench {
        let wait = "import threading as t; t.Thread(target=t.Event().wait).start(); t.Event().wait()";
        let mut bench = Bench::of("python3", &["-c", wait]);
        while bench.threads.observe().is_ok() && bench.threads.single_thread().is_some() {
            std::thread::yield_now();
        }
        bench.fall_asleep()
    }

    fn fall_asleep(self) -> Bench {
        let mut bench = self;
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut looks = 0;
        while looks < 3 {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(20));
            bench.threads.observe().unwrap();
            let asleep = bench.threads.none_ran();
            looks = if asleep { looks + 1 } else { 0 };
            bench.threads.mark_read_except(&[]);
        }
        bench.threads.invalidate_all();
        bench
    }

    /// A process that is on a CPU whenever it can, and not on that of this thread where there are two: in the same
    /// queue it never has the CPU while this thread looks.
    fn working() -> Bench {
        let bench = Bench::of("sh", &["-c", "while :; do :; done"]);
        // That of the main thread: this one may be pinned already.
        // SAFETY: each set is valid to read and write, of the given size, and the numbers are within it.
        let main = std::process::id() as i32;
        let allowed = affinity(|set| unsafe { libc::sched_getaffinity(main, size_of_val(set), set) });
        let mut cpus =
            (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &allowed) });
        if let (Some(own), Some(other)) = (cpus.next(), cpus.next()) {
            for (tid, cpu) in [(0, own), (bench.reader.tid, other)] {
                affinity(|set| unsafe {
                    libc::CPU_SET(cpu, set);
                    libc::sched_setaffinity(tid, size_of_val(set), set)
                });
            }
        }
        bench
    }

    fn read(&mut self, scope: StopScope) -> Result<Vec<StackId>, &'static str> {
        if scope == StopScope::EachThread {
            self.reader.attached.get_or_insert(true);
        }
        self.threads.observe().unwrap();
        let (reader, threads, interner) = (&mut self.reader, &mut self.threads, &mut self.interner);
        let stacks = ConsistentReader { reader, threads, interner }.read(scope, &mut self.stopper);
        assert!(self.stopper.release_pending());
        stacks.map(|threads| threads.iter().map(|thread| thread.stack).collect()).map_err(|error| error.kind)
    }

    /// Looks until the process has a CPU.
    fn until_on_cpu(&mut self) {
        while self.threads.tids_on_cpu().is_empty() {
            std::thread::yield_now();
            self.threads.observe().unwrap();
        }
    }
}

/// The set of CPUs that a system call reads or writes; it has to succeed.
fn affinity(call: impl FnOnce(&mut libc::cpu_set_t) -> i32) -> libc::cpu_set_t {
    // SAFETY: a cpu_set_t of zeros is an empty set, and valid to write to.
    let mut set = unsafe { std::mem::zeroed() };
    assert_eq!(call(&mut set), 0);
    set
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_process_that_sleeps_is_read_once_and_never_stopped() {
    for (scope, holder) in [
        (StopScope::GilHolder, 0),
        (StopScope::GilHolder, THREAD),
        (StopScope::AllThreads, 0),
        (StopScope::EachThread, 0),
    ] {
        let mut bench = Bench::asleep();
        bench.reader.holders = vec![holder];
        let first = bench.read(scope).unwrap();
        assert!(bench.threads.none_ran());
        assert_eq!(bench.read(scope).unwrap(), first);
        assert_eq!(bench.reader.readings, [(false, true), (false, false)]);
        assert_eq!(bench.stopper.stops.stops, 0);
    }
}

#[test]
fn a_thread_in_two_interpreters_is_read_in_both() {
    for scope in [StopScope::GilHolder, StopScope::AllThreads] {
        let mut bench = Bench::asleep();
        bench.reader.interpreters = vec![MAIN, MAIN + 1];
        assert_eq!(bench.read(scope).unwrap().len(), 2);
        assert_eq!(bench.reader.readings, [(false, true), (false, true)]);
        assert!(bench.threads.none_ran());
        bench.read(scope).unwrap();
        assert_eq!(bench.reader.readings[2..], [(false, false), (false, false)]);
    }
}

#[test]
fn a_process_that_works_stands_still_while_it_is_read_or_has_no_cpu() {
    for scope in [StopScope::GilHolder, StopScope::AllThreads, StopScope::EachThread] {
        let mut bench = Bench::working();
        bench.reader.holders = vec![THREAD];
        let mut stopped = 0;
        while stopped < 3 {
            bench.until_on_cpu();
            bench.read(scope).unwrap();
            assert!(bench.reader.readings.iter().all(|&(_, ran)| ran));
            stopped = bench.reader.readings.iter().filter(|(is_stopped, _)| *is_stopped).count();
        }
        assert!(bench.stopper.stops.stops >= 3);
        // It goes on. One that was stopped while it had no CPU has not run before that is looked at again.
        let deadline = Instant::now() + Duration::from_secs(30);
        while bench.threads.none_ran() {
            assert!(Instant::now() < deadline);
            bench.threads.observe().unwrap();
        }
    }
}

#[test]
fn a_process_goes_on_once_its_memory_is_read_and_before_stacks_are_built() {
    for (scope, holder) in [
        (StopScope::GilHolder, THREAD),
        (StopScope::AllThreads, THREAD),
        (StopScope::GilHolder, 0),
        (StopScope::EachThread, 0),
    ] {
        let mut bench = Bench::working();
        bench.reader.holders = vec![holder];
        // A free GIL is read without a stop first; what changes is stopped then.
        bench.reader.changing = holder == 0;
        while !bench.reader.readings.iter().any(|&(is_stopped, _)| is_stopped) {
            bench.reader.readings.clear();
            bench.reader.held.clear();
            bench.until_on_cpu();
            bench.read(scope).unwrap();
        }
        let stopped = bench.reader.readings.iter().zip(&bench.reader.held);
        let stopped: Vec<bool> =
            stopped.filter(|((is_stopped, _), _)| *is_stopped).map(|(_, &held)| held).collect();
        assert_eq!(stopped, vec![false; stopped.len()], "{scope:?} {holder}");
    }
}

#[test]
fn a_gil_that_changes_hands_is_followed_for_a_while() {
    let mut bench = Bench::two_asleep();
    bench.reader.holders = vec![0, THREAD, 0, 0];
    bench.read(StopScope::GilHolder).unwrap();
    assert_eq!(bench.reader.readings.len(), 2);
    bench.reader.holders = vec![0];
    bench.reader.switching = true;
    assert_eq!(bench.read(StopScope::GilHolder), Err("moved"));
    assert_eq!(bench.stopper.stops.stops, 0);
}

#[test]
fn a_call_that_is_being_entered_is_given_time() {
    let mut bench = Bench::asleep();
    bench.reader.incomplete = 5;
    bench.read(StopScope::GilHolder).unwrap();
    assert_eq!(bench.reader.readings.len(), 6);
    bench.reader.incomplete = 100;
    assert_eq!(bench.read(StopScope::GilHolder), Err("read"));
}

#[test]
fn a_thread_that_works_without_the_gil_has_to_be_found_the_same_twice() {
    let mut bench = Bench::working();
    bench.until_on_cpu();
    bench.read(StopScope::GilHolder).unwrap();
    // What changes whenever it is read is stopped.
    bench.reader.changing = true;
    bench.reader.readings.clear();
    while !bench.reader.readings.contains(&(true, true)) {
        bench.until_on_cpu();
        bench.read(StopScope::GilHolder).unwrap();
    }
}

#[test]
fn a_holder_that_is_no_thread_of_the_process_means_the_only_one_or_all() {
    let mut bench = Bench::working();
    bench.reader.holders = vec![THREAD + 1];
    while !bench.reader.readings.contains(&(true, true)) {
        bench.until_on_cpu();
        bench.read(StopScope::GilHolder).unwrap();
    }
}

#[test]
fn without_a_gil_c_code_on_a_cpu_has_to_be_found_the_same_twice_or_is_stopped() {
    let mut bench = Bench::working();
    bench.reader.attached = Some(false);
    bench.until_on_cpu();
    bench.read(StopScope::EachThread).unwrap();
    assert_eq!(bench.stopper.stops.stops, 0);
    bench.reader.changing = true;
    while bench.stopper.stops.stops == 0 {
        bench.until_on_cpu();
        bench.read(StopScope::EachThread).unwrap();
    }
}
