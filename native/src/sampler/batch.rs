//! What was counted between two takes, and how well.

use crate::ptrace::ptrace_stop::Stops;
use crate::sampler::counts::{Counts, Sample, States, Who};
use crate::stacks::stack_interner::{Book, FrameId, Page};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The clocks at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub unix_ns: u64,
    pub monotonic_ns: u64,
    pub target_cpu_ns: u64,
    pub sampler_cpu_ns: u64,
}

/// Sampling that has begun and not yet been taken.
#[derive(Debug)]
pub struct Open {
    began: Reading,
    sums: Sums,
    counts: Counts,
}

/// What adds up tick by tick.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Ticks tried, failed ones included.
    pub attempts: u64,
    /// Failed ticks by kind.
    pub errors: BTreeMap<&'static str, u64>,
    pub late_ns: u64,
    /// The most threads seen at one tick.
    pub threads: usize,
    /// Samples whose stack was cut.
    pub truncated: u64,
    pub stops: Stops,
}

/// A closed batch: it covers [start_ns, start_ns + duration_ns).
#[derive(Debug)]
pub struct Batch {
    pub start_ns: u64,
    pub duration_ns: u64,
    pub target_cpu_ns: u64,
    pub sampler_cpu_ns: u64,
    pub sums: Sums,
    pub samples: u64,
    /// Samples counted under `(other)`.
    pub other: u64,
    counted: Vec<(Who, Arc<[FrameId]>, States)>,
    page: Page,
}

/// A wall clock that moved against the monotonic one by more was set by somebody (or the machine slept).
const CLOCK_STEP_NS: u64 = 1_000_000_000;

impl Open {
    pub fn at(began: Reading, max_stacks: usize) -> Open {
        Open { began, sums: Sums::default(), counts: Counts::new(max_stacks) }
    }

    pub fn sampled(&mut self, samples: &[Sample]) {
        self.sums.attempts += 1;
        self.sums.threads = self.sums.threads.max(samples.len());
        for sample in samples {
            self.sums.truncated += u64::from(sample.truncated);
            self.counts.add(sample);
        }
    }

    pub fn failed(&mut self, kind: &'static str) {
        self.sums.attempts += 1;
        *self.sums.errors.entry(kind).or_default() += 1;
    }

    pub fn late(&mut self, late_ns: u64) {
        self.sums.late_ns += late_ns;
    }

    pub fn stopped(&mut self, stops: Stops) {
        self.sums.stops.add(stops);
    }

    pub fn attempts(&self) -> u64 {
        self.sums.attempts
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Ends this batch and begins the next at the same moment: the next starts exactly where this one ends,
    /// unless the wall clock was stepped meanwhile, in which case it starts by the new clock.
    pub fn swap(&mut self, now: Reading, book: &Book) -> Batch {
        let duration_ns = now.monotonic_ns.saturating_sub(self.began.monotonic_ns);
        let batch_end_ns = self.began.unix_ns + duration_ns;
        let stepped = batch_end_ns.abs_diff(now.unix_ns) > CLOCK_STEP_NS;
        let unix_ns = if stepped { now.unix_ns } else { batch_end_ns };
        let began = std::mem::replace(&mut self.began, Reading { unix_ns, ..now });
        let counts = self.counts.swap();
        let frames = |stack| book.frames_of(stack).unwrap_or_default();
        Batch {
            start_ns: began.unix_ns,
            duration_ns,
            target_cpu_ns: now.target_cpu_ns.saturating_sub(began.target_cpu_ns),
            sampler_cpu_ns: now.sampler_cpu_ns.saturating_sub(began.sampler_cpu_ns),
            sums: std::mem::take(&mut self.sums),
            samples: counts.total(),
            other: counts.other,
            counted: counts.rows().map(|(who, stack, n)| (who.clone(), frames(stack), n)).collect(),
            page: book.page(),
        }
    }
}

impl Batch {
    /// Rows (thread, stack, idle, running, gil), sorted so that equal counts give equal lists.
    pub fn rows(&self) -> Vec<(String, String, u64, u64, u64)> {
        let row = |(who, frames, [idle, running, gil]): &(Who, Arc<[FrameId]>, States)| {
            (who.text().to_owned(), self.page.folded(frames), *idle, *running, *gil)
        };
        let mut rows: Vec<_> = self.counted.iter().map(row).collect();
        rows.sort_unstable();
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::counts::State;
    use crate::stacks::frame_text::Call;

    fn at(unix_ns: u64, monotonic_ns: u64) -> Reading {
        Reading { unix_ns, monotonic_ns, target_cpu_ns: monotonic_ns / 2, sampler_cpu_ns: monotonic_ns / 10 }
    }

    fn samples(book: &mut Book, stacks: &[&str]) -> Vec<Sample> {
        let sample = |function: &&str| {
            let frame = book.frame(&Call { function, file: "", line: 0 });
            let (stack, truncated) = book.stack(&[frame], 10);
            Sample { who: Who::Main, name: None, stack, state: State::Gil, truncated }
        };
        stacks.iter().map(sample).collect()
    }

    #[test]
    fn batches_tile_and_no_sample_is_lost_between_them() {
        let mut book = Book::new(10);
        let mut open = Open::at(at(5_000, 100), 10);
        open.sampled(&samples(&mut book, &["b", "a"]));
        open.failed("read");
        for stopped_ns in [7, 5] {
            open.stopped(Stops { stops: 1, stopped_ns, longest_ns: stopped_ns });
        }
        let first = open.swap(at(5_031, 130), &book);
        open.sampled(&samples(&mut book, &["a"]));
        let second = open.swap(at(5_062, 160), &book);
        assert_eq!((first.start_ns, first.duration_ns), (5_000, 30));
        assert_eq!((second.start_ns, second.duration_ns), (5_030, 30));
        assert_eq!((first.sums.attempts, first.samples, first.sums.threads), (2, 2, 2));
        assert_eq!((second.sums.attempts, second.samples, second.sums.threads), (1, 1, 1));
        assert_eq!(first.sums.errors, BTreeMap::from([("read", 1)]));
        assert_eq!((first.target_cpu_ns, first.sampler_cpu_ns), (15, 3));
        assert_eq!(first.sums.stops, Stops { stops: 2, stopped_ns: 12, longest_ns: 7 });
        assert_eq!(second.sums.stops, Stops::default());
        let row = |stack: &str| ("main".to_owned(), stack.to_owned(), 0, 0, 1);
        assert_eq!(first.rows(), [row("a"), row("b")]);
        assert_eq!(second.rows(), [row("a")]);
    }

    #[test]
    fn a_stepped_wall_clock_is_followed_from_the_next_batch_on() {
        let (hour, book) = (3_600_000_000_000, Book::new(1));
        let mut open = Open::at(at(hour, 100), 1);
        assert_eq!(open.swap(at(2 * hour, 130), &book).start_ns, hour);
        assert_eq!(open.swap(at(2 * hour + 30, 160), &book).start_ns, 2 * hour);
    }
}
