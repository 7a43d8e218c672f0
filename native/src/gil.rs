//! Reading stacks that are true at the price of one thread standing still, or none.
//!
//! A Python stack changes only while its thread holds the GIL. So a reading is true if, from its beginning to its
//! end,
//! - the thread that holds the GIL stands still: stopped by us, or without a CPU all the time; or
//! - nobody holds it, and each thread that was read had no CPU all the time. One that was on a CPU works without
//!   the GIL and may have come by for a moment, so it is read twice and must be found the same.
//!
//! Whether a thread had a CPU in between, its run count says (`os_thread`). A thread that waits is thus never
//! stopped: to be stopped would be to be woken. If a reading turns out not to be true it is made again, with those
//! stopped that can be: the holder, or whoever works without the GIL. One interpreter after another: those with a
//! GIL of their own (PEP 684) do not hold each other up.
//!
//! Where the holder cannot be known, all threads must have no CPU, or all are stopped.

use crate::book::Book;
use crate::os_thread::Since;
use crate::sample::{Failure, Gil, StackReader, Stacks, ThreadStack};
use crate::stop::{Refusal, Stop, Stopper};
use crate::threads::Threads;
use std::time::Duration;

/// A reading that was not true is made again after these pauses: a call that was found half entered needs
/// nanoseconds to be entered, but its thread may have to wait for a CPU first, perhaps the one that reads it.
const PAUSES_US: [u64; 8] = [20, 20, 100, 200, 400, 800, 1600, 3200];
/// So often a thread without a CPU is read as it is; if it is given one each time, it is stopped.
const ASK_FIRST: usize = 4;

/// What is read, by what, and into what.
pub struct Reading<'a> {
    pub reader: &'a mut dyn StackReader,
    pub threads: &'a mut Threads,
    pub book: &'a mut Book,
}

/// What is stopped for a reading that cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stillness {
    /// The thread that holds the GIL, of one interpreter after another.
    OfTheGil,
    /// All threads.
    OfAll,
}

type Found = Result<Vec<ThreadStack>, Failure>;

impl Reading<'_> {
    /// Reads all Python threads. `threads` must have been looked at just now; what has not run since it was last
    /// read is not read again.
    ///
    /// # Errors
    /// `moved` if something ran at every try; `unstoppable`, `slow`, `traced`, `leaving` and `lock` from stopping;
    /// whatever the reader says.
    pub fn read(&mut self, stillness: Stillness, stopper: &mut Stopper) -> Found {
        let interpreters = self.reader.interpreters()?;
        let mut stacks = Vec::new();
        let mut looked_again = false;
        if stillness == Stillness::OfAll {
            stacks =
                self.persist(&mut looked_again, |reading, n| reading.attempt_all(&interpreters, n, stopper))?;
            self.remember(&stacks);
        } else {
            for &interpreter in &interpreters {
                let attempt = |reading: &mut Self, n| reading.attempt(interpreter, n, stopper);
                let mut found = self.persist(&mut looked_again, attempt)?;
                self.remember(&found);
                stacks.append(&mut found);
            }
        }
        // Whoever is in no interpreter had nothing to be read. Only where all was read after one and the same look.
        if interpreters.len() == 1 || !looked_again {
            self.remember_the_rest(&stacks);
        }
        Ok(stacks)
    }

    /// Repeats an attempt until it succeeds or there is no point.
    fn persist(
        &mut self,
        looked_again: &mut bool,
        mut attempt: impl FnMut(&mut Self, usize) -> Found,
    ) -> Found {
        let mut n = 0;
        loop {
            match attempt(self, n) {
                Err(failure) if failure.again && n < PAUSES_US.len() => {}
                done => return done,
            }
            std::thread::sleep(Duration::from_micros(PAUSES_US[n]));
            n += 1;
            self.threads.look().map_err(|error| Failure::new("leaving", &error))?;
            *looked_again = true;
        }
    }

    fn attempt(&mut self, interpreter: usize, n: usize, stopper: &mut Stopper) -> Found {
        if n < ASK_FIRST && self.threads.were_all_still() {
            return self.read_as_it_is(interpreter);
        }
        let gil = self.reader.gil(interpreter)?;
        if gil.holder == 0 {
            let working = self.threads.on_cpu();
            return match n == 0 || working.is_empty() {
                true => self.read_as_it_is(interpreter),
                false => self.read_stopped(interpreter, &working, stopper),
            };
        }
        match self.os_thread(gil) {
            None => self.attempt_all(&[interpreter], n, stopper),
            Some(tid) if self.threads.still(tid) && n < ASK_FIRST => self.read_as_it_is(interpreter),
            Some(tid) => self.read_stopped(interpreter, &[tid], stopper),
        }
    }

    /// With nobody stopped.
    fn read_as_it_is(&mut self, interpreter: usize) -> Found {
        let stacks = self.read_one(interpreter)?;
        self.prove(stacks, interpreter, None)
    }

    /// With these stopped.
    fn read_stopped(&mut self, interpreter: usize, tids: &[i32], stopper: &mut Stopper) -> Found {
        let stop = stopper.stop_these(tids).map_err(|refusal| refused(&refusal))?;
        self.reader.deadline(Some(stop.deadline()));
        let stacks = match self.read_one(interpreter) {
            Ok(stacks) => self.prove(stacks, interpreter, Some(&stop)),
            // Whatever was wrong, it moved.
            Err(failure) => match self.reader.gil(interpreter) {
                Ok(gil) if gil.holder != 0 && !self.os_thread(gil).is_some_and(|tid| stop.holds(tid)) => {
                    Err(moved("another thread took the GIL"))
                }
                _ => Err(failure),
            },
        };
        self.reader.deadline(None);
        self.let_go(stop);
        stacks
    }

    /// Whether a reading is true; perhaps some threads stand still.
    fn prove(&mut self, stacks: Stacks, interpreter: usize, stop: Option<&Stop<'_>>) -> Found {
        let Stacks { threads, gil } = stacks;
        if gil.holder == 0 {
            return self.prove_free(threads, gil, interpreter, stop);
        }
        let holder = self.os_thread(gil);
        match (holder, stop) {
            (Some(tid), Some(stop)) if stop.holds(tid) => Ok(threads),
            (_, Some(_)) => Err(moved("another thread took the GIL")),
            // It had the GIL when the reading began: it still has it, and nobody else did.
            (Some(tid), None) if self.threads.since_look(tid) == Since::Still => Ok(threads),
            (None, None) if self.threads.were_all_still() && self.threads.are_all_still() => Ok(threads),
            (_, None) => Err(moved("the thread with the GIL ran while it was read")),
        }
    }

    /// While nobody holds the GIL, and perhaps some are stopped.
    fn prove_free(
        &mut self,
        stacks: Vec<ThreadStack>,
        gil: Gil,
        interpreter: usize,
        stop: Option<&Stop<'_>>,
    ) -> Found {
        if self.threads.only().is_some_and(|tid| self.threads.since_look(tid) == Since::Still) {
            return Ok(stacks);
        }
        let mut working = Vec::new();
        for thread in &stacks {
            let tid = self.threads.find(thread.native_id, thread.thread_id);
            if tid.is_some_and(|tid| {
                stop.is_some_and(|stop| stop.holds(tid)) || !self.threads.may_have_run(tid)
            }) {
                continue;
            }
            match tid.map(|tid| self.threads.since_look(tid)) {
                Some(Since::Still) => {}
                Some(Since::Moved) => return Err(moved("a thread ran while it was read")),
                Some(Since::OnCpu) | None => working.push((thread.thread_id, thread.stack)),
            }
        }
        if !working.is_empty() {
            let again = self.read_one(interpreter)?.threads;
            let same =
                |&(id, stack)| again.iter().any(|thread| thread.thread_id == id && thread.stack == stack);
            if !working.iter().all(same) {
                return Err(moved("a thread came by while it was read"));
            }
        }
        match self.reader.gil(interpreter)? == gil {
            true => Ok(stacks),
            false => Err(moved("a thread took the GIL")),
        }
    }

    /// While no thread has a CPU, by itself or because all are stopped.
    fn attempt_all(&mut self, interpreters: &[usize], n: usize, stopper: &mut Stopper) -> Found {
        if n < ASK_FIRST && self.threads.were_all_still() {
            let stacks = self.read_each(interpreters)?;
            return match self.threads.are_all_still() {
                true => Ok(stacks),
                false => Err(moved("a thread ran while it was read")),
            };
        }
        let stop = stopper.stop().map_err(|refusal| refused(&refusal))?;
        self.reader.deadline(Some(stop.deadline()));
        let stacks = self.read_each(interpreters);
        self.reader.deadline(None);
        self.let_go(stop);
        stacks
    }

    fn read_each(&mut self, interpreters: &[usize]) -> Found {
        let mut stacks = Vec::new();
        for &interpreter in interpreters {
            stacks.append(&mut self.read_one(interpreter)?.threads);
        }
        Ok(stacks)
    }

    fn read_one(&mut self, interpreter: usize) -> Result<Stacks, Failure> {
        let threads = &*self.threads;
        let mut ran =
            |native_id| threads.find(Some(native_id), 0).is_none_or(|tid| threads.may_have_run(tid));
        self.reader.read(interpreter, &mut ran, self.book)
    }

    /// The thread that holds the GIL.
    fn os_thread(&self, gil: Gil) -> Option<i32> {
        self.threads.find(gil.native_id, 0).or_else(|| self.threads.only())
    }

    fn let_go(&mut self, stop: Stop<'_>) {
        stop.threads().for_each(|tid| self.threads.was_stopped(tid));
        drop(stop);
    }

    fn remember(&mut self, stacks: &[ThreadStack]) {
        for thread in stacks {
            match self.threads.find(thread.native_id, thread.thread_id) {
                Some(tid) if thread.failed => self.threads.forget(tid),
                Some(tid) => self.threads.was_read(tid),
                None => {}
            }
        }
    }

    fn remember_the_rest(&mut self, stacks: &[ThreadStack]) {
        let found = |thread: &ThreadStack| self.threads.find(thread.native_id, thread.thread_id);
        let known: Vec<i32> = stacks.iter().filter_map(found).collect();
        self.threads.were_read_except(&known);
    }
}

fn moved(what: &str) -> Failure {
    Failure::passing("moved", &what)
}

fn refused(refusal: &Refusal) -> Failure {
    match refusal {
        Refusal::Gone => Failure::passing(refusal.kind(), refusal),
        _ => Failure::new(refusal.kind(), refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::StackId;
    use crate::stop::Limits;
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
        /// What was seen at each reading: does the process stand still, has it run since the last one?
        seen: Vec<(bool, bool)>,
    }

    impl StackReader for Scripted {
        fn interpreters(&mut self) -> Result<Vec<usize>, Failure> {
            Ok(vec![MAIN])
        }

        fn gil(&mut self, _: usize) -> Result<Gil, Failure> {
            let holder = self.holders[self.gil_looks.min(self.holders.len() - 1)];
            self.gil_looks += 1;
            let switches = if self.switching { self.gil_looks as u64 } else { 0 };
            Ok(Gil { holder, native_id: Some(if holder == THREAD { self.tid } else { 1 }), switches })
        }

        fn read(
            &mut self,
            _: usize,
            ran: &mut dyn FnMut(i32) -> bool,
            book: &mut Book,
        ) -> Result<Stacks, Failure> {
            let stat = std::fs::read(format!("/proc/{}/stat", self.tid)).unwrap();
            let stands = crate::target::thread_state(&stat) == Some(b't');
            self.seen.push((stands, ran(self.tid)));
            if self.seen.len() <= self.incomplete {
                return Err(Failure::passing("read", &"a call was being entered"));
            }
            let line = if self.changing { self.seen.len() as i32 } else { 1 };
            let frame = book.frame(&crate::stack::Call { function: "f", file: "f.py", line });
            let gil = self.gil(MAIN)?;
            let thread = ThreadStack {
                thread_id: 7,
                native_id: Some(self.tid),
                interpreter: MAIN,
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
            stacks
                .map(|threads| threads.iter().map(|thread| thread.stack).collect())
                .map_err(|error| error.kind)
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
}
