//! Sums the samples of a pprof profile (profile.proto) into distinct stacks by label set, each with its hash.
//!
//! `sidelight_collector.ingest.pyroscope.pprof_sums` is the reference in Python, and a test compares the two. The
//! fields are defined in https://github.com/google/pprof/blob/main/proto/profile.proto.

use crate::collector::wire::{read_integers, Damaged, Fields, Integers, Value};
use crate::stacks::escape::escape;
use crate::stacks::states::{STATES, STATE_COUNT};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use twox_hash::XxHash3_64;

/// The stack of samples without frames.
pub const NO_FRAMES: &str = "(no frames)";
const TRUNCATED: &str = "(truncated)";
const NO_NAME: &str = "(no name)";
const STATE_LABEL: &str = "state";
/// Numbers of locations up to this many times their number are looked up in an array.
const DENSE_FACTOR: usize = 4;
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

/// What a profile says of itself: the names and units of its values, its period and its time.
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

/// Reads what a profile says of itself, without its samples.
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
/// errors are carried from stack to stack.
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
        for row in rows {
            let counts = row.ns.map(|ns| carry.count(ns));
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

/// The encoded messages of a profile.
#[derive(Default)]
struct Profile<'a> {
    strings: Vec<&'a [u8]>,
    value_types: Vec<&'a [u8]>,
    samples: Vec<&'a [u8]>,
    locations: Vec<&'a [u8]>,
    functions: Vec<&'a [u8]>,
    period_type: &'a [u8],
    period: i64,
    time_ns: i64,
    duration_ns: i64,
}

impl<'a> Profile<'a> {
    fn read(content: &'a [u8], max_entries: usize) -> Result<Profile<'a>, Refusal> {
        let mut profile = Profile::default();
        for (entries, field) in Fields(content).enumerate() {
            if entries >= max_entries {
                return Err(Refusal::TooManyEntries);
            }
            let (number, value) = field?;
            match number {
                1 => profile.value_types.push(value.bytes()?),
                2 => profile.samples.push(value.bytes()?),
                4 => profile.locations.push(value.bytes()?),
                5 => profile.functions.push(value.bytes()?),
                6 => profile.strings.push(value.bytes()?),
                9 => profile.time_ns = value.integer()? as i64,
                10 => profile.duration_ns = value.integer()? as i64,
                11 => profile.period_type = value.bytes()?,
                12 => profile.period = value.integer()? as i64,
                _ => {}
            }
        }
        Ok(profile)
    }

    fn string(&self, index: u64) -> Result<Cow<'a, str>, Damaged> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        match self.strings.get(index) {
            Some(bytes) => Ok(String::from_utf8_lossy(bytes)),
            // An empty profile may have no string table.
            None if index == 0 => Ok(Cow::Borrowed("")),
            None => Err(Damaged("a string is missing")),
        }
    }

    fn value_type(&self, message: &[u8]) -> Result<(String, String), Damaged> {
        let [name, unit] = read_numbers(message, [1, 2])?;
        Ok((self.string(name)?.into_owned(), self.string(unit)?.into_owned()))
    }
}

/// The last values of some fields of a message, 0 if they are absent.
fn read_numbers<const N: usize>(message: &[u8], numbers: [u64; N]) -> Result<[u64; N], Damaged> {
    let mut found = [0; N];
    for field in Fields(message) {
        let (number, value) = field?;
        if let Some(at) = numbers.iter().position(|&wanted| wanted == number) {
            found[at] = value.integer()?;
        }
    }
    Ok(found)
}

/// The fields of one sample; its memory is used again for the next.
#[derive(Default)]
struct Sample<'a> {
    locations: Vec<Value<'a>>,
    values: Vec<i64>,
    labels: Vec<&'a [u8]>,
}

impl<'a> Sample<'a> {
    fn read(&mut self, message: &'a [u8]) -> Result<(), Damaged> {
        self.locations.clear();
        self.values.clear();
        self.labels.clear();
        for field in Fields(message) {
            match field? {
                (1, value) => self.locations.push(value),
                (2, value) => read_integers(value, |value| self.values.push(value as i64))?,
                (3, value) => self.labels.push(value.bytes()?),
                _ => {}
            }
        }
        Ok(())
    }

    fn value(&self, at: usize) -> Result<i64, Damaged> {
        self.values.get(at).copied().ok_or(Damaged("a sample has too few values"))
    }

    /// The time of this sample in each state.
    fn weigh(&self, values: &Values<'_>, state: Option<usize>) -> Result<[i128; STATE_COUNT], Damaged> {
        let unit = i128::from(values.unit_ns);
        let mut ns = [0; STATE_COUNT];
        let mut sum = 0;
        for &(at, state) in values.states {
            let value = i128::from(self.value(at)?.max(0)) * unit;
            ns[state] += value;
            sum += value;
        }
        if let Some((at, rest)) = values.whole {
            let whole = i128::from(self.value(at)?.max(0)) * unit;
            ns[rest] += (whole - sum).max(0);
        }
        if let Some(state) = state {
            let whole = ns.iter().sum();
            ns = [0; STATE_COUNT];
            ns[state] = whole;
        }
        Ok(ns)
    }
}

/// Name and value of each label, as numbers of texts.
type LabelSet = Vec<(usize, usize)>;
/// The number of a label set, the number of a stack, and the time in each state.
struct WeighedSample {
    set: usize,
    stack: usize,
    ns: [i128; STATE_COUNT],
}

/// The distinct label sets in order, and the place of each set's number in them.
struct SortedSets {
    labels: Vec<Vec<(String, String)>>,
    order: Vec<usize>,
}

/// The number of a sample's label set, and its state.
#[derive(Clone, Copy)]
struct SampleLabels {
    number: usize,
    state: Option<usize>,
}

/// The texts of labels, by number.
#[derive(Default)]
struct LabelTable<'a> {
    texts: Vec<Cow<'a, str>>,
    numbers: HashMap<Cow<'a, str>, usize>,
    by_string: HashMap<u64, usize>,
    sets: Vec<LabelSet>,
    /// Whether a sample with a value has the set.
    used: Vec<bool>,
    set_numbers: HashMap<LabelSet, usize>,
    /// The labels of the last sample: those of the next one are often equal.
    last: Option<(Vec<&'a [u8]>, SampleLabels)>,
    dropped: BTreeSet<String>,
}

impl<'a> LabelTable<'a> {
    fn read_set(
        &mut self,
        profile: &Profile<'a>,
        messages: &[&'a [u8]],
        dropped: &[String],
    ) -> Result<SampleLabels, Damaged> {
        if let Some((last, labels)) = &self.last {
            if last == messages {
                return Ok(*labels);
            }
        }
        let (mut set, mut set_state) = (LabelSet::new(), None);
        for message in messages {
            let [name, text, _] = read_numbers(message, [1, 2, 3])?;
            let name = self.number(profile, name)?;
            let value = self.number(profile, text)?;
            let (name_text, value_text) = (&self.texts[name], &self.texts[value]);
            if name_text == STATE_LABEL {
                if let Some(state) = STATES.iter().position(|state| state == value_text) {
                    set_state = Some(state);
                    continue;
                }
            }
            if name_text.starts_with("__") && !dropped.iter().any(|dropped| dropped == name_text) {
                continue;
            }
            if value_text.is_empty() || dropped.iter().any(|dropped| dropped == name_text) {
                // Labels with a number instead of a text belong to single requests, or to sizes of objects.
                self.dropped.insert(name_text.clone().into_owned());
                continue;
            }
            set.retain(|&(earlier, _)| earlier != name);
            set.push((name, value));
        }
        set.sort_unstable();
        let labels = SampleLabels { number: self.set_number(set), state: set_state };
        self.last = Some((messages.to_vec(), labels));
        Ok(labels)
    }

    /// The number of a string of the profile; equal strings have the same number.
    fn number(&mut self, profile: &Profile<'a>, string: u64) -> Result<usize, Damaged> {
        if let Some(&number) = self.by_string.get(&string) {
            return Ok(number);
        }
        let text = profile.string(string)?;
        let number = *self.numbers.entry(text.clone()).or_insert(self.texts.len());
        if number == self.texts.len() {
            self.texts.push(text);
        }
        self.by_string.insert(string, number);
        Ok(number)
    }

    fn set_number(&mut self, set: LabelSet) -> usize {
        if let Some(&number) = self.set_numbers.get(&set) {
            return number;
        }
        self.sets.push(set.clone());
        self.used.push(false);
        self.set_numbers.insert(set, self.sets.len() - 1);
        self.sets.len() - 1
    }

    fn used_sets(&self) -> impl Iterator<Item = &LabelSet> {
        self.sets.iter().zip(&self.used).filter(|(_, used)| **used).map(|(set, _)| set)
    }

    fn sort_sets(&self) -> SortedSets {
        let text = |number: usize| self.texts[number].clone().into_owned();
        let texts = |set: &LabelSet| {
            let mut labels: Vec<_> = set.iter().map(|&(name, value)| (text(name), text(value))).collect();
            labels.sort_unstable();
            labels
        };
        let sets: Vec<_> = self.sets.iter().map(texts).collect();
        let mut labels = sets.clone();
        labels.sort_unstable();
        labels.dedup();
        let order = sets.iter().map(|set| labels.binary_search(set).unwrap_or_default()).collect();
        SortedSets { labels, order }
    }

    /// Drops the labels with the most values until there are few enough names and distinct sets.
    fn limit(&mut self, max_sets: usize, max_names: usize) {
        let mut values: HashMap<usize, HashSet<usize>> = HashMap::new();
        for &(name, value) in self.used_sets().flatten() {
            values.entry(name).or_default().insert(value);
        }
        // The name with the most values first, then by name.
        let mut names: Vec<_> = values.into_iter().map(|(name, values)| (values.len(), name)).collect();
        names.sort_by(|one, other| {
            other.0.cmp(&one.0).then_with(|| self.texts[one.1].cmp(&self.texts[other.1]))
        });
        let mut kept = 0;
        while names.get(kept).is_some_and(|name| name.0 > max_sets || names.len() - kept > max_names) {
            kept += 1;
        }
        loop {
            let dropped: HashSet<usize> = names[..kept].iter().map(|&(_, name)| name).collect();
            self.sets.iter_mut().for_each(|set| set.retain(|(name, _)| !dropped.contains(name)));
            if kept == names.len() || self.used_sets().collect::<HashSet<_>>().len() <= max_sets {
                self.dropped.extend(dropped.iter().map(|&name| self.texts[name].clone().into_owned()));
                return;
            }
            kept += 1;
        }
    }
}

/// The distinct stacks of a profile. The text of a location is built once, that of a stack once per list of locations.
struct StackTable<'a> {
    profile: &'a Profile<'a>,
    limits: PprofLimits,
    functions: Numbered<'a>,
    locations: Numbered<'a>,
    /// Escaped frames of the locations in use, each after a `;`, the outermost first.
    frames: String,
    /// Where `frames` has the frames of a location, for low numbers of locations and for others.
    dense: Vec<Span>,
    sparse: HashMap<u64, Span>,
    /// The frames of one stack, the leaf first.
    spans: Vec<Span>,
    /// The texts of the stacks, one after the other.
    texts: String,
    stacks: Vec<StackText>,
    by_locations: HashMap<u64, usize>,
    by_text: HashMap<u64, usize>,
    /// Whether a frame of the profile reads as the place where a stack was cut.
    has_marker: bool,
    text_bytes: usize,
}

/// Messages by their own number: low numbers are places in an array.
struct Numbered<'a> {
    dense: Vec<Option<&'a [u8]>>,
    sparse: HashMap<u64, &'a [u8]>,
}

impl<'a> Numbered<'a> {
    fn read(messages: &[&'a [u8]]) -> Result<Numbered<'a>, Damaged> {
        let mut table =
            Numbered { dense: vec![None; DENSE_FACTOR * messages.len() + 1], sparse: HashMap::new() };
        for &message in messages {
            let [number] = read_numbers(message, [1])?;
            match table.dense.get_mut(number as usize) {
                Some(place) => *place = Some(message),
                None => drop(table.sparse.insert(number, message)),
            }
        }
        Ok(table)
    }

    fn get(&self, number: u64) -> Option<&'a [u8]> {
        match self.dense.get(number as usize) {
            Some(place) => *place,
            None => self.sparse.get(&number).copied(),
        }
    }
}

/// A part of a text: its start and end. No frames are empty.
#[derive(Clone, Copy, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Result<Span, Refusal> {
        let part = |at| u32::try_from(at).map_err(|_| Refusal::TooMuchText);
        Ok(Span { start: part(start)?, end: part(end)? })
    }

    #[inline]
    fn of(self, text: &str) -> &str {
        &text[self.start as usize..self.end as usize]
    }
}

#[derive(Clone, Copy)]
struct StackText {
    hash: u64,
    span: Span,
    is_truncated: bool,
}

impl<'a> StackTable<'a> {
    fn new(profile: &'a Profile<'a>, limits: PprofLimits) -> Result<StackTable<'a>, Damaged> {
        let dense = DENSE_FACTOR * profile.locations.len() + 1;
        Ok(StackTable {
            profile,
            limits,
            functions: Numbered::read(&profile.functions)?,
            locations: Numbered::read(&profile.locations)?,
            frames: String::new(),
            dense: vec![Span::default(); dense],
            sparse: HashMap::new(),
            spans: Vec::new(),
            texts: String::new(),
            stacks: Vec::new(),
            by_locations: HashMap::new(),
            by_text: HashMap::new(),
            has_marker: false,
            text_bytes: 0,
        })
    }

    /// The number of the stack of these locations, the leaf first.
    ///
    /// Stacks with the same hash are the same stack, as in the store.
    fn index_of(&mut self, locations: &[Value<'_>]) -> Result<usize, Refusal> {
        let key = hash_locations(locations)?;
        if let Some(&stack) = self.by_locations.get(&key) {
            return Ok(stack);
        }
        let start = self.texts.len();
        let is_cut = self.add_text(locations)?;
        let hash = XxHash3_64::oneshot(&self.texts.as_bytes()[start..]);
        let stack = *self.by_text.entry(hash).or_insert(self.stacks.len());
        if stack == self.stacks.len() {
            let is_truncated = is_cut || self.has_marker && has_truncated_frame(&self.texts[start..]);
            self.stacks.push(StackText { hash, span: Span::new(start, self.texts.len())?, is_truncated });
        } else {
            self.texts.truncate(start);
        }
        self.by_locations.insert(key, stack);
        Ok(stack)
    }

    /// Adds the text of a stack to `texts`, and returns whether it was cut.
    fn add_text(&mut self, locations: &[Value<'_>]) -> Result<bool, Refusal> {
        self.spans.clear();
        let mut bytes = 0;
        for &value in locations {
            let mut integers = Integers::new(value);
            while let Some(location) = integers.next()? {
                let mut span = self.dense.get(location as usize).copied().unwrap_or_default();
                if span.end == 0 {
                    span = self.build_frames(location)?;
                }
                bytes += (span.end - span.start) as usize;
                self.spans.push(span);
            }
        }
        if self.spans.is_empty() {
            self.texts.push_str(NO_FRAMES);
            return self.reserve(NO_FRAMES.len()).map(|()| false);
        }
        self.reserve(bytes)?;
        let start = self.texts.len();
        self.texts.reserve(bytes);
        let mut spans = self.spans.iter().rev();
        if let Some(&Span { start, end }) = spans.next() {
            self.texts.push_str(&self.frames[start as usize + 1..end as usize]);
        }
        for &span in spans {
            self.texts.push_str(span.of(&self.frames));
        }
        let Some(text) = truncate(&self.texts[start..], self.limits.depth) else { return Ok(false) };
        self.texts.truncate(start);
        self.texts.push_str(&text);
        Ok(true)
    }

    /// The frames of a location, which are built when they are needed first.
    #[cold]
    fn build_frames(&mut self, location: u64) -> Result<Span, Refusal> {
        if let Some(&span) = self.sparse.get(&location) {
            return Ok(span);
        }
        let message = self.locations.get(location).ok_or(Damaged("a location is missing"))?;
        let start = self.frames.len();
        let mut lines = Vec::new();
        for field in Fields(message) {
            if let (4, line) = field? {
                lines.push(line.bytes()?);
            }
        }
        for line in lines.iter().rev() {
            let [function, line] = read_numbers(line, [1, 2])?;
            let function = self.functions.get(function).ok_or(Damaged("a function is missing"))?;
            let [name, file] = read_numbers(function, [2, 4])?;
            let (name, file) = (self.profile.string(name)?, self.profile.string(file)?);
            self.reserve(name.len() + file.len())?;
            self.frames.push(';');
            self.has_marker |= push_frame(&mut self.frames, &name, &file, line);
        }
        if lines.is_empty() {
            let [address] = read_numbers(message, [3])?;
            self.frames.push_str(&format!(";0x{address:x}"));
        }
        let span = Span::new(start, self.frames.len())?;
        match self.dense.get_mut(location as usize) {
            Some(place) => *place = span,
            None => drop(self.sparse.insert(location, span)),
        }
        Ok(span)
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.text_bytes += bytes;
        if self.text_bytes > self.limits.text_bytes {
            return Err(Refusal::TooMuchText);
        }
        Ok(())
    }

    fn key(&self, stack: usize) -> (u64, &str) {
        (self.stacks[stack].hash, self.stacks[stack].span.of(&self.texts))
    }
}

/// Hashes a list of locations as it is encoded.
fn hash_locations(locations: &[Value<'_>]) -> Result<u64, Damaged> {
    if let [Value::Bytes(packed)] = locations {
        return Ok(XxHash3_64::oneshot(packed));
    }
    let mut bytes = Vec::new();
    for &value in locations {
        read_integers(value, |number| bytes.extend_from_slice(&number.to_ne_bytes()))?;
    }
    // Another seed, because other lists have the same bytes when they are packed.
    Ok(XxHash3_64::oneshot_with_seed(1, &bytes))
}

/// Adds a frame as `function (file:line)`, without what is unknown, and returns whether it reads as TRUNCATED.
fn push_frame(frames: &mut String, name: &str, file: &str, line: u64) -> bool {
    let start = frames.len();
    frames.push_str(if name.is_empty() { NO_NAME } else { name });
    if !file.is_empty() {
        frames.push_str(" (");
        frames.push_str(file);
        if 0 < line && line < 1 << 31 {
            frames.push(':');
            push_number(frames, line);
        }
        frames.push(')');
    }
    let bytes = &frames.as_bytes()[start..];
    let has_special =
        memchr::memchr3(b';', b'\n', b'\r', bytes).is_some() || memchr::memchr(b'%', bytes).is_some();
    if has_special || matches!(bytes[0], b'#' | b'[') {
        let escaped = escape(&frames[start..]).into_owned();
        frames.truncate(start);
        frames.push_str(&escaped);
    }
    &frames[start..] == TRUNCATED
}

fn push_number(text: &mut String, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while at == digits.len() || number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits[at..].iter().for_each(|&digit| text.push(char::from(digit)));
}

fn has_truncated_frame(text: &str) -> bool {
    text.split(';').any(|frame| frame == TRUNCATED)
}

/// The stack cut to `depth` frames, one frame in the place of the middle; None if it is no deeper.
fn truncate(text: &str, depth: usize) -> Option<String> {
    if text.len() <= 2 * depth || memchr::memchr_iter(b';', text.as_bytes()).count() < depth {
        return None;
    }
    let frames: Vec<&str> = text.split(';').collect();
    let kept = depth.saturating_sub(1);
    let (root, leaf) = (kept.div_ceil(2), kept / 2);
    Some([&frames[..root], &[TRUNCATED], &frames[frames.len() - leaf..]].concat().join(";"))
}

#[cfg(test)]
mod tests;
