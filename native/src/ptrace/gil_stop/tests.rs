use super::*;
use crate::ptrace::ptrace_stop::Limits;
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
    /// What was seen at each reading: does the process stand still, has it run since the last one?
    seen: Vec<(bool, bool)>,
}

impl StackReader for Scripted {
    fn interpreters(&mut self) -> Result<Vec<usize>, Failure> {
        Ok(self.interpreters.clone())
    }

    fn max_depth(&self) -> usize {
        9
    }

    fn gil(&mut self, _: usize) -> Result<Gil, Failure> {
        let holder = self.holders[self.gil_looks.min(self.holders.len() - 1)];
        self.gil_looks += 1;
        let switches = if self.switching { self.gil_looks as u64 } else { 0 };
        Ok(Gil { holder, native_id: Some(if holder == THREAD { self.tid } else { 1 }), switches })
    }

    fn read(
        &mut self,
        interpreter: usize,
        ran: &mut dyn FnMut(i32) -> bool,
        book: &mut Book,
    ) -> Result<Stacks, Failure> {
        let stat = std::fs::read(format!("/proc/{}/stat", self.tid)).unwrap();
        let stands = crate::linux::target::thread_state(&stat) == Some(b't');
        self.seen.push((stands, ran(self.tid)));
        if self.seen.len() <= self.incomplete {
            return Err(Failure::passing("read", &"a call was being entered"));
        }
        let line = if self.changing { self.seen.len() as i32 } else { 1 };
        let frame = book.frame(&crate::stacks::frame_text::Call { function: "f", file: "f.py", line });
        let gil = self.gil(MAIN)?;
        let thread = ThreadStack {
            thread_id: 7,
            native_id: Some(self.tid),
            interpreter,
            owns_gil: false,
            active: false,
            stack: book.stack(&[frame], 9).0,
            truncated: false,
            failed: false,
        };
        Ok(Stacks { threads: vec![thread], gil })
    }
}

struct Bench {
    child: Child,
    reader: Scripted,
    threads: Threads,
    stopper: Stopper,
    book: Book,
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
                seen: Vec::new(),
            },
            threads: Threads::of(tid).unwrap(),
            stopper: Stopper::within(tid, Limits { wait, hold: wait }),
            book: Book::new(100),
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
        while bench.threads.look().is_ok() && bench.threads.only().is_some() {
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
            bench.threads.look().unwrap();
            let asleep = bench.threads.none_ran();
            looks = if asleep { looks + 1 } else { 0 };
            bench.threads.were_read_except(&[]);
        }
        bench.threads.forget_all();
        bench
    }

    /// A process that is on a CPU whenever it can.
    fn working() -> Bench {
        Bench::of("sh", &["-c", "while :; do :; done"])
    }

    fn read(&mut self, stillness: Stillness) -> Result<Vec<StackId>, &'static str> {
        self.threads.look().unwrap();
        let (reader, threads, book) = (&mut self.reader, &mut self.threads, &mut self.book);
        let stacks = Reading { reader, threads, book }.read(stillness, &mut self.stopper);
        assert!(self.stopper.settle());
        stacks.map(|threads| threads.iter().map(|thread| thread.stack).collect()).map_err(|error| error.kind)
    }

    /// Looks until the process has a CPU.
    fn until_on_cpu(&mut self) {
        while self.threads.on_cpu().is_empty() {
            std::thread::yield_now();
            self.threads.look().unwrap();
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_process_that_sleeps_is_read_once_and_never_stopped() {
    for (stillness, holder) in
        [(Stillness::OfTheGil, 0), (Stillness::OfTheGil, THREAD), (Stillness::OfAll, 0)]
    {
        let mut bench = Bench::asleep();
        bench.reader.holders = vec![holder];
        let first = bench.read(stillness).unwrap();
        assert!(bench.threads.none_ran());
        assert_eq!(bench.read(stillness).unwrap(), first);
        assert_eq!(bench.reader.seen, [(false, true), (false, false)]);
        assert_eq!(bench.stopper.stops.stops, 0);
    }
}

#[test]
fn a_thread_in_two_interpreters_is_read_in_both() {
    for stillness in [Stillness::OfTheGil, Stillness::OfAll] {
        let mut bench = Bench::asleep();
        bench.reader.interpreters = vec![MAIN, MAIN + 1];
        assert_eq!(bench.read(stillness).unwrap().len(), 2);
        assert_eq!(bench.reader.seen, [(false, true), (false, true)]);
        assert!(bench.threads.none_ran());
        bench.read(stillness).unwrap();
        assert_eq!(bench.reader.seen[2..], [(false, false), (false, false)]);
    }
}

#[test]
fn a_process_that_works_stands_still_while_it_is_read_or_has_no_cpu() {
    for stillness in [Stillness::OfTheGil, Stillness::OfAll] {
        let mut bench = Bench::working();
        bench.reader.holders = vec![THREAD];
        let mut stopped = 0;
        while stopped < 3 {
            bench.until_on_cpu();
            bench.read(stillness).unwrap();
            assert!(bench.reader.seen.iter().all(|&(_, ran)| ran));
            stopped = bench.reader.seen.iter().filter(|(stands, _)| *stands).count();
        }
        assert!(bench.stopper.stops.stops >= 3);
        assert!(!bench.threads.none_ran());
    }
}

#[test]
fn a_gil_that_changes_hands_is_followed_for_a_while() {
    let mut bench = Bench::two_asleep();
    bench.reader.holders = vec![0, THREAD, 0, 0];
    bench.read(Stillness::OfTheGil).unwrap();
    assert_eq!(bench.reader.seen.len(), 2);
    bench.reader.holders = vec![0];
    bench.reader.switching = true;
    assert_eq!(bench.read(Stillness::OfTheGil), Err("moved"));
    assert_eq!(bench.stopper.stops.stops, 0);
}

#[test]
fn a_call_that_is_being_entered_is_given_time() {
    let mut bench = Bench::asleep();
    bench.reader.incomplete = 5;
    bench.read(Stillness::OfTheGil).unwrap();
    assert_eq!(bench.reader.seen.len(), 6);
    bench.reader.incomplete = 100;
    assert_eq!(bench.read(Stillness::OfTheGil), Err("read"));
}

#[test]
fn a_thread_that_works_without_the_gil_has_to_be_found_the_same_twice() {
    let mut bench = Bench::working();
    bench.until_on_cpu();
    bench.read(Stillness::OfTheGil).unwrap();
    // What changes whenever it is read is stopped.
    bench.reader.changing = true;
    bench.reader.seen.clear();
    while !bench.reader.seen.contains(&(true, true)) {
        bench.until_on_cpu();
        bench.read(Stillness::OfTheGil).unwrap();
    }
}

#[test]
fn a_holder_that_is_no_thread_of_the_process_means_the_only_one_or_all() {
    let mut bench = Bench::working();
    bench.reader.holders = vec![THREAD + 1];
    while !bench.reader.seen.contains(&(true, true)) {
        bench.until_on_cpu();
        bench.read(Stillness::OfTheGil).unwrap();
    }
}
