//! The messages of a profile, and the fields of its samples.

use super::{Refusal, Values};
use crate::collector::wire::{read_integers, Damaged, Fields, Value};
use crate::stacks::states::STATE_COUNT;
use std::borrow::Cow;

/// The encoded messages of a profile.
#[derive(Default)]
pub(super) struct Profile<'a> {
    pub(super) strings: Vec<&'a [u8]>,
    pub(super) value_types: Vec<&'a [u8]>,
    pub(super) samples: Vec<&'a [u8]>,
    pub(super) locations: Vec<&'a [u8]>,
    pub(super) functions: Vec<&'a [u8]>,
    pub(super) period_type: &'a [u8],
    pub(super) period: i64,
    pub(super) time_ns: i64,
    pub(super) duration_ns: i64,
}

impl<'a> Profile<'a> {
    pub(super) fn read(content: &'a [u8], max_entries: usize) -> Result<Profile<'a>, Refusal> {
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

    pub(super) fn string(&self, index: u64) -> Result<Cow<'a, str>, Damaged> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        match self.strings.get(index) {
            Some(bytes) => Ok(String::from_utf8_lossy(bytes)),
            // An empty profile may have no string table.
            None if index == 0 => Ok(Cow::Borrowed("")),
            None => Err(Damaged("a string is missing")),
        }
    }

    pub(super) fn value_type(&self, message: &[u8]) -> Result<(String, String), Damaged> {
        let [name, unit] = read_numbers(message, [1, 2])?;
        Ok((self.string(name)?.into_owned(), self.string(unit)?.into_owned()))
    }
}

/// The last values of some fields of a message, 0 if they are absent.
pub(super) fn read_numbers<const N: usize>(message: &[u8], numbers: [u64; N]) -> Result<[u64; N], Damaged> {
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
pub(super) struct Sample<'a> {
    pub(super) locations: Vec<Value<'a>>,
    pub(super) values: Vec<i64>,
    pub(super) labels: Vec<&'a [u8]>,
}

impl<'a> Sample<'a> {
    pub(super) fn read(&mut self, message: &'a [u8]) -> Result<(), Damaged> {
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

    pub(super) fn value(&self, at: usize) -> Result<i64, Damaged> {
        self.values.get(at).copied().ok_or(Damaged("a sample has too few values"))
    }

    /// The time of this sample in each state.
    pub(super) fn weigh(
        &self,
        values: &Values<'_>,
        state: Option<usize>,
    ) -> Result<[i128; STATE_COUNT], Damaged> {
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
