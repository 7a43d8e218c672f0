//! The distinct label sets of a profile's samples.

use super::encoded_profile::{read_numbers, Profile};
use crate::collector::wire::Damaged;
use crate::stacks::states::STATES;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

const STATE_LABEL: &str = "state";

/// Name and value of each label, as numbers of texts.
type LabelSet = Vec<(usize, usize)>;

/// The distinct label sets in order, and the place of each set's number in them.
pub(super) struct SortedSets {
    pub(super) labels: Vec<Vec<(String, String)>>,
    pub(super) order: Vec<usize>,
}

/// The number of a sample's label set, and its state.
#[derive(Clone, Copy)]
pub(super) struct SampleLabels {
    pub(super) number: usize,
    pub(super) state: Option<usize>,
}

/// The texts of labels, by number.
#[derive(Default)]
pub(super) struct LabelTable<'a> {
    texts: Vec<Cow<'a, str>>,
    numbers: HashMap<Cow<'a, str>, usize>,
    by_string: HashMap<u64, usize>,
    pub(super) sets: Vec<LabelSet>,
    /// Whether a sample with a value has the set.
    pub(super) used: Vec<bool>,
    set_numbers: HashMap<LabelSet, usize>,
    /// The labels of the last sample: those of the next one are often equal.
    last: Option<(Vec<&'a [u8]>, SampleLabels)>,
    pub(super) dropped: BTreeSet<String>,
}

impl<'a> LabelTable<'a> {
    pub(super) fn read_set(
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

    pub(super) fn sort_sets(&self) -> SortedSets {
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
    pub(super) fn limit(&mut self, max_sets: usize, max_names: usize) {
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
