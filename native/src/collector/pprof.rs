//! Sums the samples of a pprof profile (profile.proto) into distinct stacks by label set, each with its hash.
//!
//! `sidelight_collector.ingest.pyroscope.pprof_sums` is the reference in Python, and a test compares the two. The
//! fields are defined in https://github.com/google/pprof/blob/main/proto/profile.proto.

use crate::collector::wire::Damaged;
use crate::stacks::states::STATE_COUNT;
use encoded_profile::{Profile, Sample};
use label_sets::LabelTable;
use stack_table::StackTable;
use std::collections::BTreeSet;
use std::ops::Range;

mod encoded_profile;
mod label_sets;
mod stack_table;

/// The stack of samples without frames.
pub const NO_FRAMES: &str = "(no frames)";
const MAX_SAMPLES: i128 = 1_000_000_000_000;
const MAX_THREAD_TIME_NS: i128 = 100_000_000_000_000_000;

/// Why a profile is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Damaged(&'static str),
    TooManyEntries,
    TooManyStacks,
    TooMuchText,
    TooMuchTime,
}

impl From<Damaged> for Refusal {
    fn from(damaged: Damaged) -> Refusal {
        Refusal::Damaged(damaged.0)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct PprofLimits {
    /// Samples, locations, functions and strings together.
    pub entries: usize,
    /// Bytes of the texts of frames and distinct stacks.
    pub text_bytes: usize,
    /// Distinct stacks of a group, and frames of a stack.
    pub stacks: usize,
    pub depth: usize,
    /// Label sets, and names of labels.
    pub groups: usize,
    pub labels: usize,
}

/// What the values of the samples mean.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    /// Pairs of a value's index and the state that it counts for.
    pub states: &'a [(usize, usize)],
    /// The value of which the values above are a part, and the state of the rest.
    pub whole: Option<(usize, usize)>,
    /// The value that counts samples.
    pub count: Option<usize>,
    pub unit_ns: i64,
    pub period_ns: i64,
    /// Names of labels that make no group.
    pub dropped: &'a [String],
}

/// How a profile describes itself: the names and units of its values, its period and its time.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub value_types: Vec<(String, String)>,
    pub period_type: (String, String),
    pub period: i64,
    pub time_ns: i64,
    pub duration_ns: i64,
}

/// The samples of one label set, as numbers of stacks and counts by state, in ascending order of hash and text.
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    pub labels: Vec<(String, String)>,
    pub rows: Vec<(usize, [i64; STATE_COUNT])>,
    pub samples: i64,
    pub truncated: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub struct SummedProfile {
    /// Hash of each distinct stack, and where `texts` has its text.
    pub stacks: Vec<(u64, Range<usize>)>,
    pub texts: String,
    pub groups: Vec<Group>,
    pub period_ns: i64,
    /// Names of labels that were dropped.
    pub dropped: BTreeSet<String>,
    /// Bytes of the texts of frames and distinct stacks.
    pub text_bytes: usize,
}

/// Reads how a profile describes itself, without its samples.
pub fn read_header(content: &[u8], limits: PprofLimits) -> Result<Header, Refusal> {
    let profile = Profile::read(content, limits.entries)?;
    let mut header = Header {
        period: profile.period,
        time_ns: profile.time_ns,
        duration_ns: profile.duration_ns,
        ..Header::default()
    };
    for message in &profile.value_types {
        header.value_types.push(profile.value_type(message)?);
    }
    header.period_type = profile.value_type(profile.period_type)?;
    Ok(header)
}

/// Sums the values of the samples by label set and stack, in whole samples of one period.
///
/// The sum of all samples times the period is the sum of the values, but for less than a nanosecond a sample: rounding
/// errors are carried from stack to stack. The sum of each state is right to less than a sample.
pub fn sum_samples(
    content: &[u8],
    values: &Values<'_>,
    limits: PprofLimits,
) -> Result<SummedProfile, Refusal> {
    let profile = Profile::read(content, limits.entries)?;
    let mut stacks = StackTable::new(&profile, limits)?;
    let mut labels = LabelTable::default();
    let mut samples = Vec::new();
    let (mut total_ns, mut total_count) = (0_i128, 0_i128);
    let mut sample = Sample::default();
    for message in &profile.samples {
        sample.read(message)?;
        let set = labels.read_set(&profile, &sample.labels, values.dropped)?;
        let ns = sample.weigh(values, set.state)?;
        let sum: i128 = ns.iter().sum();
        if sum > 0 {
            if let Some(at) = values.count {
                total_count += i128::from(sample.value(at)?.max(0));
            }
            total_ns += sum;
            labels.used[set.number] = true;
            samples.push(WeighedSample { set: set.number, stack: stacks.index_of(&sample.locations)?, ns });
        }
    }
    if total_ns > MAX_THREAD_TIME_NS || total_count > MAX_SAMPLES {
        return Err(Refusal::TooMuchTime);
    }
    labels.limit(limits.groups, limits.labels);
    let (period_ns, count) = choose_period(total_ns, total_count, i128::from(values.period_ns));
    if count > MAX_SAMPLES {
        return Err(Refusal::TooMuchTime);
    }
    let sets = labels.sort_sets();
    samples.iter_mut().for_each(|sample| sample.set = sets.order[sample.set]);
    samples.sort_unstable_by(|one, other| {
        one.set.cmp(&other.set).then_with(|| stacks.key(one.stack).cmp(&stacks.key(other.stack)))
    });
    samples.dedup_by(|next, sum| {
        let is_same = next.set == sum.set && next.stack == sum.stack;
        if is_same {
            sum.ns.iter_mut().zip(next.ns).for_each(|(sum, ns)| *sum += ns);
        }
        is_same
    });
    let mut carry = Carry { total_ns, count, ns: 0, samples: 0 };
    // One state after the other, so that the sum of each state is right too, to less than a sample.
    let mut counts = vec![[0; STATE_COUNT]; samples.len()];
    for state in 0..STATE_COUNT {
        for (sample, counts) in samples.iter().zip(&mut counts) {
            counts[state] = carry.count(sample.ns[state]);
        }
    }
    let mut counts = counts.into_iter();
    let mut groups = Vec::new();
    for rows in samples.chunk_by(|one, other| one.set == other.set) {
        if rows.len() > limits.stacks {
            return Err(Refusal::TooManyStacks);
        }
        let mut group = Group {
            labels: sets.labels[rows[0].set].clone(),
            rows: Vec::with_capacity(rows.len()),
            samples: 0,
            truncated: 0,
        };
        for (row, counts) in rows.iter().zip(counts.by_ref()) {
            let samples: i64 = counts.iter().sum();
            if samples > 0 {
                group.samples += samples;
                group.truncated += if stacks.stacks[row.stack].is_truncated { samples } else { 0 };
                group.rows.push((row.stack, counts));
            }
        }
        if group.samples > 0 {
            groups.push(group);
        }
    }
    let dropped = labels.dropped;
    Ok(SummedProfile {
        text_bytes: stacks.text_bytes,
        stacks: stacks
            .stacks
            .iter()
            .map(|stack| (stack.hash, stack.span.start as usize..stack.span.end as usize))
            .collect(),
        texts: stacks.texts,
        groups,
        period_ns: i64::try_from(period_ns).unwrap_or(i64::MAX),
        dropped,
    })
}

/// The period and the number of samples whose product is the total time, but for rounding.
fn choose_period(total_ns: i128, total_count: i128, period_ns: i128) -> (i128, i128) {
    let period_ns = period_ns.max(1);
    let count = if total_count > 0 { total_count } else { round_ratio(total_ns, period_ns) };
    let count = count.clamp(1, total_ns.max(1));
    (round_ratio(total_ns, count).max(1), count)
}

/// A ratio of numbers that are not negative, rounded half up.
fn round_ratio(numerator: i128, denominator: i128) -> i128 {
    (2 * numerator + denominator) / (2 * denominator)
}

/// Turns times into whole samples, and carries the rounding error to the next time.
struct Carry {
    total_ns: i128,
    count: i128,
    ns: i128,
    samples: i128,
}

impl Carry {
    fn count(&mut self, ns: i128) -> i64 {
        if ns == 0 {
            return 0;
        }
        self.ns += ns;
        let samples = round_ratio(self.ns * self.count, self.total_ns);
        let added = samples - self.samples;
        self.samples = samples;
        i64::try_from(added).unwrap_or(i64::MAX)
    }
}

/// The number of a label set, the number of a stack, and the time in each state.
struct WeighedSample {
    set: usize,
    stack: usize,
    ns: [i128; STATE_COUNT],
}

#[cfg(test)]
mod tests;
