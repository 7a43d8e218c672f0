//! Sample counts by thread, stack and state.

use crate::linux::system_call::Wait;
use crate::stacks::stack_interner::StackId;
use crate::stacks::states::THREAD_STATE_COUNT;
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// What a thread was doing when it was sampled: a partition, every sample has exactly one. In the order of STATES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Idle,
    Running,
    Gil,
    /// Runnable, without a CPU.
    CpuWait,
    /// Asleep until it gets the GIL.
    GilWait,
    /// Asleep until it gets a lock, of threads, processes or files.
    Lock,
    /// Asleep until one of some descriptors is ready.
    Poll,
    /// Asleep in the transfer of a socket, pipe or file.
    Io,
    /// Asleep until a point in time.
    Sleep,
}

impl State {
    /// Decides the state of a thread.
    ///
    /// `waits_for_cpu`, `busy` and `wait` are from the kernel; `active` is the reader's guess, used only where
    /// the OS thread is not known.
    /// Waiting for a CPU outranks the GIL: a holder without a CPU runs nothing. The GIL outranks the rest: it is read
    /// at the same instant as the stack, and a holder that the kernel put to sleep (a page fault, a disk read inside C
    /// code) keeps every other thread from running Python.
    pub fn decide(
        owns_gil: bool,
        waits_for_cpu: bool,
        wait: State,
        busy: Option<bool>,
        active: bool,
    ) -> State {
        if waits_for_cpu {
            return State::CpuWait;
        }
        if owns_gil {
            return State::Gil;
        }
        match busy.unwrap_or(active) {
            true => State::Running,
            false => wait,
        }
    }

    /// The state of a thread that is not busy. A futex is a lock unless it lies in a GIL: unknown where the addresses
    /// of GILs are not known (`gils` is None).
    pub fn of_wait(wait: Option<Wait>, gils: Option<&[Range<usize>]>) -> State {
        match wait {
            Some(Wait::Futex(futex)) => match gils {
                Some(gils) if gils.iter().any(|gil| gil.contains(&futex)) => State::GilWait,
                Some(_) => State::Lock,
                None => State::Idle,
            },
            Some(Wait::Lock) => State::Lock,
            Some(Wait::Poll) => State::Poll,
            Some(Wait::Io) => State::Io,
            Some(Wait::Sleep) => State::Sleep,
            Some(Wait::Restarted | Wait::Other) | None => State::Idle,
        }
    }
}

/// The label under which the samples of a thread are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ThreadLabel {
    Main,
    Other,
    Named(Arc<str>),
}

impl ThreadLabel {
    pub fn as_str(&self) -> &str {
        match self {
            ThreadLabel::Main => "main",
            ThreadLabel::Other => "other",
            ThreadLabel::Named(name) => name,
        }
    }
}

/// One thread at one tick.
#[derive(Clone, Debug)]
pub struct Sample {
    pub label: ThreadLabel,
    /// The name of the thread in the program, if requested and known.
    pub name: Option<Arc<str>>,
    pub stack: StackId,
    pub state: State,
    pub truncated: bool,
}

/// Samples by state.
pub type StateCounts = [u64; THREAD_STATE_COUNT];

/// Samples by thread, stack and state.
#[derive(Debug)]
pub struct Counts {
    rows: FxHashMap<(ThreadLabel, StackId), StateCounts>,
    max_rows: usize,
    total: u64,
    /// Samples counted under `(other)`.
    pub other: u64,
}

impl Counts {
    pub fn new(max_rows: usize) -> Counts {
        Counts { rows: FxHashMap::default(), max_rows, total: 0, other: 0 }
    }

    /// Counts one sample. A new stack beyond the limit is counted under `(other)`.
    pub fn add(&mut self, sample: &Sample) {
        self.total += 1;
        let mut key = (sample.label.clone(), sample.stack);
        if self.rows.len() >= self.max_rows && !self.rows.contains_key(&key) {
            key.1 = StackId::OTHER;
        }
        self.other += u64::from(key.1 == StackId::OTHER);
        self.rows.entry(key).or_default()[sample.state as usize] += 1;
    }

    /// The number of samples counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn rows(&self) -> impl Iterator<Item = (&ThreadLabel, StackId, StateCounts)> + '_ {
        self.rows.iter().map(|((label, stack), states)| (label, *stack, *states))
    }

    /// Returns the counts and starts again from zero.
    pub fn take(&mut self) -> Counts {
        std::mem::replace(self, Counts::new(self.max_rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::frame_text::Call;
    use crate::stacks::stack_interner::StackInterner;

    fn stacks<const N: usize>(names: [&str; N]) -> [StackId; N] {
        let mut interner = StackInterner::new(100);
        names.map(|function| {
            let frame = interner.intern_frame(&Call { function, file: "", line: 0 });
            interner.intern_stack(&[frame], 10).0
        })
    }

    fn sample(label: ThreadLabel, stack: StackId, state: State) -> Sample {
        Sample { label, name: None, stack, state, truncated: false }
    }

    /// Counts of the first five states, none of the others.
    fn row(first: [u64; 5]) -> StateCounts {
        std::array::from_fn(|state| first.get(state).copied().unwrap_or(0))
    }

    fn sorted(counts: &Counts) -> Vec<(&ThreadLabel, StackId, StateCounts)> {
        let mut rows: Vec<_> = counts.rows().collect();
        rows.sort_unstable();
        rows
    }

    #[test]
    fn the_os_decides_idleness_and_the_gil_outranks_it() {
        let decide =
            |owns_gil, busy, active| State::decide(owns_gil, false, State::of_wait(None, None), busy, active);
        assert_eq!(decide(false, Some(false), true), State::Idle);
        assert_eq!(decide(false, Some(true), false), State::Running);
        assert_eq!(decide(true, Some(false), false), State::Gil);
        assert_eq!(decide(false, None, true), State::Running);
        assert_eq!(decide(false, None, false), State::Idle);
    }

    #[test]
    fn a_thread_that_waits_for_a_cpu_is_on_none_even_if_it_holds_the_gil() {
        for (owns_gil, busy) in [(true, true), (false, false)] {
            for wait in [State::Idle, State::GilWait, State::Sleep] {
                assert_eq!(State::decide(owns_gil, true, wait, Some(busy), true), State::CpuWait);
            }
        }
    }

    #[test]
    fn a_thread_that_sleeps_has_the_state_of_its_wait_unless_it_holds_the_gil() {
        let gils = [100..200, 500..600];
        for (wait, known, unknown) in [
            (Some(Wait::Futex(150)), State::GilWait, State::Idle),
            (Some(Wait::Futex(599)), State::GilWait, State::Idle),
            (Some(Wait::Futex(200)), State::Lock, State::Idle),
            (Some(Wait::Lock), State::Lock, State::Lock),
            (Some(Wait::Poll), State::Poll, State::Poll),
            (Some(Wait::Io), State::Io, State::Io),
            (Some(Wait::Sleep), State::Sleep, State::Sleep),
            (Some(Wait::Restarted), State::Idle, State::Idle),
            (Some(Wait::Other), State::Idle, State::Idle),
            (None, State::Idle, State::Idle),
        ] {
            let state = State::of_wait(wait, Some(&gils));
            assert_eq!((state, State::of_wait(wait, None)), (known, unknown), "{wait:?}");
            assert_eq!(State::decide(false, false, state, Some(false), true), state);
            assert_eq!(State::decide(false, false, state, Some(true), true), State::Running);
            assert_eq!(State::decide(true, false, state, Some(false), true), State::Gil);
        }
    }

    #[test]
    fn samples_of_one_stack_are_counted_by_thread_and_state() {
        let [a, b] = stacks(["a", "b"]);
        let mut counts = Counts::new(10);
        counts.add(&sample(ThreadLabel::Main, b, State::Gil));
        counts.add(&sample(ThreadLabel::Main, a, State::Idle));
        counts.add(&sample(ThreadLabel::Main, b, State::Gil));
        counts.add(&sample(ThreadLabel::Other, b, State::Running));
        counts.add(&sample(ThreadLabel::Main, b, State::Running));
        counts.add(&sample(ThreadLabel::Other, b, State::CpuWait));
        assert_eq!((counts.total(), counts.other), (6, 0));
        let (main, other) = (&ThreadLabel::Main, &ThreadLabel::Other);
        assert_eq!(
            sorted(&counts),
            [
                (main, a, row([1, 0, 0, 0, 0])),
                (main, b, row([0, 1, 2, 0, 0])),
                (other, b, row([0, 1, 0, 1, 0]))
            ]
        );
        assert_eq!(counts.take().total(), 6);
        assert_eq!((counts.total(), counts.rows().count()), (0, 0));
    }

    #[test]
    fn stacks_beyond_the_limit_are_counted_as_other() {
        let [a, b, c, d] = stacks(["a", "b", "c", "d"]);
        let mut counts = Counts::new(2);
        for stack in [a, b, c, d, a] {
            counts.add(&sample(ThreadLabel::Main, stack, State::Idle));
        }
        assert_eq!((counts.total(), counts.other), (5, 2));
        let main = &ThreadLabel::Main;
        assert_eq!(
            sorted(&counts),
            [
                (main, StackId::OTHER, row([2, 0, 0, 0, 0])),
                (main, a, row([2, 0, 0, 0, 0])),
                (main, b, row([1, 0, 0, 0, 0]))
            ]
        );
    }
}
