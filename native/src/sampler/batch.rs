//! A batch: the counts between two calls of `take`, and their quality.

use crate::asyncio::task_counts::{TaskBatch, TaskCounts};
use crate::ptrace::ptrace_stop::StopStats;
use crate::sampler::counts::{Counts, Sample, StateCounts, ThreadLabel};
use crate::stacks::stack_interner::{FrameId, FrameTexts, StackId, StackInterner};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The clocks at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    pub unix_ns: u64,
    pub monotonic_ns: u64,
    pub target_cpu_ns: u64,
    pub sampler_cpu_ns: u64,
}

/// The batch that is being filled.
#[derive(Debug)]
pub struct OpenBatch {
    began: ClockReading,
    quality: Quality,
    counts: Counts,
    pub tasks: TaskCounts,
}

/// The quality of a batch: sums over its ticks.
#[derive(Clone, Debug, Default)]
pub struct Quality {
    /// Ticks tried, failed ones included.
    pub attempts: u64,
    /// Failed ticks by kind.
    pub errors: BTreeMap<&'static str, u64>,
    pub late_ns: u64,
    /// The most threads seen at one tick.
    pub threads: usize,
    /// Samples whose stack was cut.
    pub truncated: u64,
    pub stops: StopStats,
}

/// A closed batch: it covers [start_ns, start_ns + duration_ns).
#[derive(Debug)]
pub struct Batch {
    pub start_ns: u64,
    pub duration_ns: u64,
    pub target_cpu_ns: u64,
    pub sampler_cpu_ns: u64,
    pub quality: Quality,
    pub samples: u64,
    /// Samples counted under `(other)`.
    pub other: u64,
    /// None if no tasks were read.
    pub tasks: Option<TaskBatch>,
    counted: Vec<CountedRow>,
    texts: FrameTexts,
}

type CountedRow = (ThreadLabel, Arc<[FrameId]>, StateCounts);

/// Maximum of the stacks of a batch as text.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// If the wall clock moves further against the monotonic clock, it was set (or the machine slept).
const CLOCK_STEP_NS: u64 = 1_000_000_000;

impl OpenBatch {
    pub fn new(began: ClockReading, max_stacks: usize) -> OpenBatch {
        OpenBatch {
            began,
            quality: Quality::default(),
            counts: Counts::new(max_stacks),
            tasks: TaskCounts::default(),
        }
    }

    pub fn add_samples(&mut self, samples: &[Sample]) {
        self.quality.attempts += 1;
        self.quality.threads = self.quality.threads.max(samples.len());
        for sample in samples {
            self.quality.truncated += u64::from(sample.truncated);
            self.counts.add(sample);
        }
    }

    pub fn add_failure(&mut self, kind: &'static str) {
        self.quality.attempts += 1;
        *self.quality.errors.entry(kind).or_default() += 1;
    }

    pub fn add_late(&mut self, late_ns: u64) {
        self.quality.late_ns += late_ns;
    }

    pub fn add_stops(&mut self, stops: StopStats) {
        self.quality.stops.add(stops);
    }

    pub fn attempts(&self) -> u64 {
        self.quality.attempts
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Ends this batch and begins the next at the same moment: the next starts exactly where this one ends,
    /// unless the wall clock was stepped meanwhile, in which case it starts by the new clock.
    pub fn close(&mut self, now: ClockReading, interner: &StackInterner) -> Batch {
        let duration_ns = now.monotonic_ns.saturating_sub(self.began.monotonic_ns);
        let batch_end_ns = self.began.unix_ns + duration_ns;
        let stepped = batch_end_ns.abs_diff(now.unix_ns) > CLOCK_STEP_NS;
        let unix_ns = if stepped { now.unix_ns } else { batch_end_ns };
        let began = std::mem::replace(&mut self.began, ClockReading { unix_ns, ..now });
        let counts = self.counts.take();
        let texts = interner.frame_texts();
        let (counted, cut) = fit_rows(&counts, interner, &texts, MAX_TEXT_BYTES);
        Batch {
            start_ns: began.unix_ns,
            duration_ns,
            target_cpu_ns: now.target_cpu_ns.saturating_sub(began.target_cpu_ns),
            sampler_cpu_ns: now.sampler_cpu_ns.saturating_sub(began.sampler_cpu_ns),
            quality: std::mem::take(&mut self.quality),
            samples: counts.total(),
            other: counts.other + cut,
            tasks: self.tasks.close(interner, &texts, MAX_TEXT_BYTES),
            counted,
            texts,
        }
    }
}

/// Rows whose texts fit in `room` bytes, and how many samples of the others are counted under `(other)`. Frames are
/// stored once, but every stack is written out in full.
fn fit_rows(
    counts: &Counts,
    interner: &StackInterner,
    texts: &FrameTexts,
    mut room: usize,
) -> (Vec<CountedRow>, u64) {
    let (mut rows, mut other, mut cut) = (Vec::new(), BTreeMap::<ThreadLabel, StateCounts>::new(), 0);
    for (label, stack, states) in counts.rows() {
        let frames = interner.frames_of(stack).unwrap_or_default();
        let size = texts.folded_size(&frames);
        if stack != StackId::OTHER && size <= room {
            room -= size;
            rows.push((label.clone(), frames, states));
            continue;
        }
        if stack != StackId::OTHER {
            cut += states.iter().sum::<u64>();
        }
        let sums = other.entry(label.clone()).or_default();
        sums.iter_mut().zip(states).for_each(|(sum, n)| *sum += n);
    }
    let frames = interner.frames_of(StackId::OTHER).unwrap_or_default();
    rows.extend(other.into_iter().map(|(label, states)| (label, Arc::clone(&frames), states)));
    (rows, cut)
}

impl Batch {
    /// Await stacks of tasks (stack, state, sum of weights), sorted as `rows` are.
    pub fn task_rows(&self) -> Vec<(String, &'static str, f64)> {
        let rows = self.tasks.iter().flat_map(|tasks| &tasks.rows);
        let mut rows: Vec<_> = rows
            .map(|(frames, state, weight)| (self.texts.folded(frames), state.as_str(), *weight))
            .collect();
        rows.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        rows
    }

    /// Rows (thread, stack, samples of each state), sorted so that equal counts give equal lists.
    pub fn rows(&self) -> Vec<(String, String, StateCounts)> {
        let row = |(label, frames, states): &CountedRow| {
            (label.as_str().to_owned(), self.texts.folded(frames), *states)
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
    use std::time::Duration;

    fn at(unix_ns: u64, monotonic_ns: u64) -> ClockReading {
        ClockReading {
            unix_ns,
            monotonic_ns,
            target_cpu_ns: monotonic_ns / 2,
            sampler_cpu_ns: monotonic_ns / 10,
        }
    }

    fn gil(samples: u64) -> StateCounts {
        let mut counts = StateCounts::default();
        counts[State::Gil as usize] = samples;
        counts
    }

    fn samples(interner: &mut StackInterner, stacks: &[&str]) -> Vec<Sample> {
        let sample = |function: &&str| {
            let frame = interner.intern_frame(&Call { function, file: "", line: 0 });
            let (stack, truncated) = interner.intern_stack(&[frame], 10);
            Sample { label: ThreadLabel::Main, name: None, stack, state: State::Gil, truncated }
        };
        stacks.iter().map(sample).collect()
    }

    #[test]
    fn batches_tile_and_no_sample_is_lost_between_them() {
        let mut interner = StackInterner::new(10);
        let mut open = OpenBatch::new(at(5_000, 100), 10);
        open.add_samples(&samples(&mut interner, &["b", "a"]));
        open.add_failure("read");
        for stopped_ns in [7, 5] {
            open.add_stops(StopStats::one(stopped_ns, 1, Duration::from_nanos(6)));
        }
        let first = open.close(at(5_031, 130), &interner);
        open.add_samples(&samples(&mut interner, &["a"]));
        let second = open.close(at(5_062, 160), &interner);
        assert_eq!((first.start_ns, first.duration_ns), (5_000, 30));
        assert_eq!((second.start_ns, second.duration_ns), (5_030, 30));
        assert_eq!((first.quality.attempts, first.samples, first.quality.threads), (2, 2, 2));
        assert_eq!((second.quality.attempts, second.samples, second.quality.threads), (1, 1, 1));
        assert_eq!(first.quality.errors, BTreeMap::from([("read", 1)]));
        assert_eq!((first.target_cpu_ns, first.sampler_cpu_ns), (15, 3));
        let stops = StopStats { stops: 2, stopped_ns: 12, longest_ns: 7, over_limit: 1, longest_cpu_ns: 1 };
        assert_eq!(first.quality.stops, stops);
        assert_eq!(second.quality.stops, StopStats::default());
        let row = |stack: &str| ("main".to_owned(), stack.to_owned(), gil(1));
        assert_eq!(first.rows(), [row("a"), row("b")]);
        assert_eq!(second.rows(), [row("a")]);
    }

    #[test]
    fn rows_whose_text_does_not_fit_are_counted_as_other() {
        let mut interner = StackInterner::new(10);
        let mut counts = Counts::new(10);
        samples(&mut interner, &["a", "bbbb", "cccc"]).iter().for_each(|sample| counts.add(sample));
        let other = Sample { stack: StackId::OTHER, ..samples(&mut interner, &["a"])[0].clone() };
        counts.add(&other);
        let texts = interner.frame_texts();
        let fit = |room| fit_rows(&counts, &interner, &texts, room);
        let (rows, cut) = fit(100);
        assert_eq!((rows.len(), cut), (4, 0));
        let (rows, cut) = fit(0);
        assert_eq!((cut, texts.folded(&rows[0].1).as_str(), rows[0].2), (3, "(other)", gil(4)));
        assert_eq!(rows.len(), 1);
        let (rows, cut) = fit(7);
        assert_eq!((rows.len(), cut), (3, 1));
    }

    #[test]
    fn a_stepped_wall_clock_is_followed_from_the_next_batch_on() {
        let (hour, interner) = (3_600_000_000_000, StackInterner::new(1));
        let mut open = OpenBatch::new(at(hour, 100), 1);
        assert_eq!(open.close(at(2 * hour, 130), &interner).start_ns, hour);
        assert_eq!(open.close(at(2 * hour + 30, 160), &interner).start_ns, 2 * hour);
    }
}
