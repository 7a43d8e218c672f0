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
//! Where the holder cannot be known, all threads must have no CPU, or all are stopped. So it is before Python 3.13
//! with other interpreters than the main one: their thread states may name the thread that made them.

use crate::linux::os_thread::Since;
use crate::linux::threads::Threads;
use crate::ptrace::ptrace_stop::{Refusal, Stop, Stopper};
use crate::stacks::stack_interner::Book;
use crate::stacks::stack_reader::{Failure, Gil, StackReader, Stacks, ThreadStack};
use std::time::{Duration, Instant};

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
                let attempt = |reading: &mut Self, n| match reading.reader.names_threads(interpreter) {
                    true => reading.attempt(interpreter, n, stopper),
                    false => reading.attempt_all(&[interpreter], n, stopper),
                };
                let mut found = self.persist(&mut looked_again, attempt)?;
                self.remember(&found);
                stacks.append(&mut found);
            }
        }
        if interpreters.len() > 1 {
            self.forget_who_ran(&stacks);
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
            return self.read_as_it_is(interpreter, stopper);
        }
        let gil = self.reader.gil(interpreter)?;
        if gil.holder == 0 {
            let working = self.threads.on_cpu();
            return match n == 0 || working.is_empty() {
                true => self.read_as_it_is(interpreter, stopper),
                false => self.read_stopped(interpreter, &working, stopper),
            };
        }
        match self.os_thread(gil) {
            None => self.attempt_all(&[interpreter], n, stopper),
            Some(tid) if self.threads.still(tid) && n < ASK_FIRST => self.read_as_it_is(interpreter, stopper),
            Some(tid) => self.read_stopped(interpreter, &[tid], stopper),
        }
    }

    /// With nobody stopped.
    fn read_as_it_is(&mut self, interpreter: usize, stopper: &Stopper) -> Found {
        self.reader.deadline(self.until(stopper));
        let stacks = self.read_one(interpreter);
        self.reader.deadline(None);
        self.prove(stacks?, interpreter, None)
    }

    /// Who was pushed aside may stand still because its CPU is needed for the reading: no longer than if stopped.
    fn until(&self, stopper: &Stopper) -> Option<Instant> {
        let looked = self.threads.pushed_aside().and(self.threads.looked);
        looked.map(|looked| looked + stopper.limits.hold)
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
                stop.is_some_and(|stop| stop.holds(tid)) || !self.threads.may_have_run_in(tid, interpreter)
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
            self.reader.deadline(self.until(stopper));
            let stacks = self.read_each(interpreters);
            self.reader.deadline(None);
            let stacks = stacks?;
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
        let (threads, named) = (&*self.threads, self.reader.names_threads(interpreter));
        let mut ran = |native_id| {
            let tid = threads.find(Some(native_id), 0).filter(|_| named);
            tid.is_none_or(|tid| threads.may_have_run_in(tid, interpreter))
        };
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
                Some(tid) => self.threads.was_read_in(tid, thread.interpreter),
                None => {}
            }
        }
    }

    /// A thread that was read in one interpreter and ran before it was read in the next is to be read in both.
    fn forget_who_ran(&mut self, stacks: &[ThreadStack]) {
        for thread in stacks {
            let Some(tid) = self.threads.find(thread.native_id, thread.thread_id) else { continue };
            if thread.failed || self.threads.may_have_run_in(tid, thread.interpreter) {
                self.threads.forget(tid);
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
mod tests;
