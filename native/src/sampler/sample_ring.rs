//! A ring of the latest samples, each with its time.

use crate::sampler::counts::{Sample, State, ThreadLabel};
use crate::stacks::stack_interner::{StackId, StackInterner, OTHER};
use std::collections::{HashMap, VecDeque};

/// Maximum of the stacks of a timeline as text; beyond it a stack is `(other)`.
const MAX_TEXT_BYTES: usize = 16 << 20;

/// A bounded ring of samples: beyond the bound a new sample replaces the oldest.
#[derive(Debug)]
pub struct SampleRing {
    samples: VecDeque<TimedSample>,
    max_samples: usize,
    dropped: u64,
}

#[derive(Clone, Debug)]
struct TimedSample {
    monotonic_ns: u64,
    label: ThreadLabel,
    stack: StackId,
    state: State,
}

/// Samples of some time, oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// When the first sample was taken, in Unix time.
    pub start_ns: u64,
    /// The same moment on the monotonic clock.
    pub monotonic_ns: u64,
    pub threads: Vec<String>,
    pub stacks: Vec<String>,
    /// (nanoseconds since the start, index of its thread, index of its stack, index of its state in STATES)
    pub samples: Vec<(u64, usize, usize, u8)>,
    /// Samples that had to make room for newer ones since sampling began.
    pub dropped: u64,
}

impl SampleRing {
    pub fn new(max_samples: usize) -> SampleRing {
        SampleRing { samples: VecDeque::new(), max_samples, dropped: 0 }
    }

    pub fn add(&mut self, monotonic_ns: u64, samples: &[Sample]) {
        if self.max_samples == 0 {
            return;
        }
        for Sample { label, name, stack, state, .. } in samples {
            if self.samples.len() == self.max_samples {
                self.samples.pop_front();
                self.dropped += 1;
            }
            let label = name.clone().map_or_else(|| label.clone(), ThreadLabel::Named);
            self.samples.push_back(TimedSample { monotonic_ns, label, stack: *stack, state: *state });
        }
    }

    /// The stacks of all samples held.
    pub fn stacks(&self) -> impl Iterator<Item = StackId> + '_ {
        self.samples.iter().map(|sample| sample.stack)
    }

    /// The samples since a time on the monotonic clock, which is `unix_offset_ns` behind Unix time, without
    /// the first `after` that were ever added.
    pub fn since(
        &self,
        monotonic_ns: u64,
        after: u64,
        unix_offset_ns: u64,
        interner: &StackInterner,
    ) -> Timeline {
        let by_time = self.samples.partition_point(|sample| sample.monotonic_ns < monotonic_ns);
        let first = by_time.max(after.saturating_sub(self.dropped).min(self.samples.len() as u64) as usize);
        let mut timeline = Timeline { dropped: self.dropped, ..Timeline::default() };
        let Some(start_ns) = self.samples.get(first).map(|sample| sample.monotonic_ns) else {
            return timeline;
        };
        timeline.start_ns = start_ns + unix_offset_ns;
        timeline.monotonic_ns = start_ns;
        let (mut threads, mut stacks) = (HashMap::new(), HashMap::new());
        let texts = interner.frame_texts();
        let mut room = MAX_TEXT_BYTES;
        for sample in self.samples.range(first..) {
            let thread = *threads.entry(&sample.label).or_insert_with(|| {
                timeline.threads.push(sample.label.as_str().to_owned());
                timeline.threads.len() - 1
            });
            let stack = *stacks.entry(sample.stack).or_insert_with(|| {
                let frames = interner.frames_of(sample.stack).unwrap_or_default();
                let size = texts.folded_size(&frames);
                let fits = size <= room;
                room -= if fits { size } else { 0 };
                timeline.stacks.push(if fits { texts.folded(&frames) } else { OTHER.to_owned() });
                timeline.stacks.len() - 1
            });
            timeline.samples.push((sample.monotonic_ns - start_ns, thread, stack, sample.state as u8));
        }
        timeline
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::frame_text::Call;

    #[test]
    fn the_newest_samples_are_kept_with_their_times() {
        let mut interner = StackInterner::new(10);
        let mut stack = |function| {
            let frame = interner.intern_frame(&Call { function, file: "", line: 0 });
            interner.intern_stack(&[frame], 10).0
        };
        let sample = |label, stack, state| Sample { label, name: None, stack, state, truncated: false };
        let (a, b) = (stack("a"), stack("b"));
        let mut ring = SampleRing::new(3);
        ring.add(100, &[sample(ThreadLabel::Main, a, State::Idle)]);
        ring.add(
            200,
            &[sample(ThreadLabel::Main, b, State::Gil), sample(ThreadLabel::Other, a, State::Idle)],
        );
        ring.add(300, &[sample(ThreadLabel::Main, b, State::Running)]);
        let all = ring.since(0, 0, 5000, &interner);
        assert_eq!((all.start_ns, all.monotonic_ns, all.dropped), (5200, 200, 1));
        assert_eq!(
            (all.threads, all.stacks),
            (vec!["main".into(), "other".into()], vec!["b".into(), "a".into()])
        );
        assert_eq!(all.samples, [(0, 0, 0, 2), (0, 1, 1, 0), (100, 0, 0, 1)]);
        assert_eq!(ring.since(300, 0, 0, &interner).samples, [(0, 0, 0, 1)]);
        assert_eq!(ring.since(301, 0, 0, &interner), Timeline { dropped: 1, ..Timeline::default() });
        assert_eq!(ring.stacks().collect::<Vec<_>>(), [b, a, b]);
    }

    #[test]
    fn what_was_told_before_is_left_out_by_its_number() {
        let interner = StackInterner::new(10);
        let mut ring = SampleRing::new(3);
        let sample = |name: Option<&str>| Sample {
            label: ThreadLabel::Main,
            name: name.map(Into::into),
            stack: StackId::OTHER,
            state: State::Idle,
            truncated: false,
        };
        for at in [100, 200, 300, 400] {
            ring.add(at, &[sample(None)]);
        }
        let times = |after| ring.since(0, after, 0, &interner).samples.len();
        assert_eq!([0, 1, 2, 3, 4, 5, u64::MAX].map(times), [3, 3, 2, 1, 0, 0, 0]);
        ring.add(500, &[sample(Some("MainThread"))]);
        assert_eq!(ring.since(0, 4, 0, &interner).threads, ["MainThread"]);
    }

    #[test]
    fn a_ring_without_room_keeps_nothing() {
        let mut ring = SampleRing::new(0);
        ring.add(
            1,
            &[Sample {
                label: ThreadLabel::Main,
                name: None,
                stack: StackId::OTHER,
                state: State::Idle,
                truncated: false,
            }],
        );
        assert_eq!(ring.stacks().count(), 0);
    }
}
