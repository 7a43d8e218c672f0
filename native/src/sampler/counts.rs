//! Sample counts by thread, stack and state.

use crate::stacks::stack_interner::StackId;
use crate::stacks::states::STATE_COUNT;
use std::collections::HashMap;
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
}

impl State {
    /// Decides the state of a thread.
    ///
    /// `waits` and `busy` are from the kernel; `active` is the reader's guess, used only where
    /// the OS thread is not known.
    /// Waiting for a CPU outranks the GIL: a holder without a CPU runs nothing. The GIL outranks the rest: it is read
    /// at the same instant as the stack, and a holder that the kernel put to sleep (a page fault, a disk read inside C
    /// code) keeps every other thread from running Python.
    pub fn decide(owns_gil: bool, waits: Waits, busy: Option<bool>, active: bool) -> State {
        if waits.for_cpu {
            return State::CpuWait;
        }
        if owns_gil {
            return State::Gil;
        }
        match busy.unwrap_or(active) {
            true => State::Running,
            false if waits.for_gil => State::GilWait,
            false => State::Idle,
        }
    }
}

/// What a thread waits for, as the kernel shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// It was runnable and had no CPU.
    pub for_cpu: bool,
    /// It slept until it gets the GIL.
    pub for_gil: bool,
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
pub type StateCounts = [u64; STATE_COUNT];

/// Samples by thread, stack and state.
#[derive(Debug)]
pub struct Counts {
    rows: HashMap<(ThreadLabel, StackId), StateCounts>,
    max_rows: usize,
    total: u64,
    /// Samples counted under `(other)`.
    pub other: u64,
}

impl Counts {
    pub fn new(max_rows: usize) -> Counts {
        Counts { rows: HashMap::new(), max_rows, total: 0, other: 0 }
    }

    /// Counts one sample. A new stack beyond the limit is counted under `(other)`.
    pub fn add(&mut self, sample: &Sample) {
        self.total += 1;
        let mut key = (sample.label.clone(), sample.stack);
        if !self.rows.contains_key(&key) && self.rows.len() >= self.max_rows {
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

    const NOTHING: Waits = Waits { for_cpu: false, for_gil: false };
    const ON_NO_CPU: Waits = Waits { for_cpu: true, for_gil: false };

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

    fn sorted(counts: &Counts) -> Vec<(&ThreadLabel, StackId, StateCounts)> {
        let mut rows: Vec<_> = counts.rows().collect();
        rows.sort_unstable();
        rows
    }

    #[test]
    fn the_os_decides_idleness_and_the_gil_outranks_it() {
        assert_eq!(State::decide(false, NOTHING, Some(false), true), State::Idle);
        assert_eq!(State::decide(false, NOTHING, Some(true), false), State::Running);
        assert_eq!(State::decide(true, NOTHING, Some(false), false), State::Gil);
        assert_eq!(State::decide(false, NOTHING, None, true), State::Running);
        assert_eq!(State::decide(false, NOTHING, None, false), State::Idle);
    }

    #[test]
    fn a_thread_that_waits_for_a_cpu_is_on_none_even_if_it_holds_the_gil() {
        assert_eq!(State::decide(true, ON_NO_CPU, Some(true), true), State::CpuWait);
        assert_eq!(State::decide(false, ON_NO_CPU, Some(false), false), State::CpuWait);
    }

    #[test]
    fn a_thread_that_sleeps_for_the_gil_waits_for_it_unless_it_has_got_it() {
        let asleep = Waits { for_cpu: false, for_gil: true };
        assert_eq!(State::decide(false, asleep, Some(false), true), State::GilWait);
        assert_eq!(
            State::decide(false, Waits { for_cpu: true, ..asleep }, Some(false), true),
            State::CpuWait
        );
        assert_eq!(State::decide(true, asleep, Some(false), true), State::Gil);
        assert_eq!(State::decide(false, asleep, Some(true), true), State::Running);
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
            [(main, a, [1, 0, 0, 0, 0]), (main, b, [0, 1, 2, 0, 0]), (other, b, [0, 1, 0, 1, 0])]
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
            [(main, StackId::OTHER, [2, 0, 0, 0, 0]), (main, a, [2, 0, 0, 0, 0]), (main, b, [1, 0, 0, 0, 0])]
        );
    }
}
