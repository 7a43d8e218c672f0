//! The Python bindings of `pprof`. Work that takes time runs without the GIL.

use crate::collector::collector_bindings::{packed_columns, PackedColumns};
use crate::collector::packed_stacks;
use crate::collector::pprof::{self, Header, PprofLimits, Refusal, SummedProfile, Values};
use crate::stacks::states::STATE_COUNT;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Entries, bytes of text, stacks and frames, label sets and names of labels.
type Limits = (usize, usize, usize, usize, usize, usize);

fn limits_of((entries, text_bytes, stacks, depth, groups, labels): Limits) -> PprofLimits {
    PprofLimits { entries, text_bytes, stacks, depth, groups, labels }
}

/// A ValueError with a word for programs, and what is damaged.
fn refuse(refusal: Refusal) -> PyErr {
    PyValueError::new_err(match refusal {
        Refusal::Damaged(problem) => ("damaged", problem),
        Refusal::TooManyEntries => ("entries", ""),
        Refusal::TooManyStacks => ("stacks", ""),
        Refusal::TooMuchText => ("text", ""),
        Refusal::TooMuchTime => ("time", ""),
    })
}

/// Names and units of the values and of the period, period, time and duration.
type HeaderFields = (Vec<(String, String)>, (String, String), i64, i64, i64);

#[pyfunction]
pub fn read_pprof_header(
    py: Python<'_>,
    content: &Bound<'_, PyBytes>,
    limits: Limits,
) -> PyResult<HeaderFields> {
    let bytes = content.as_bytes();
    let Header { value_types, period_type, period, time_ns, duration_ns } =
        py.detach(|| pprof::read_header(bytes, limits_of(limits))).map_err(refuse)?;
    Ok((value_types, period_type, period, time_ns, duration_ns))
}

/// Labels, hashes, and for each state its counts (64-bit integers in the machine's order), packed stacks, samples, truncated
/// samples.
type GroupColumns<'py> =
    (Vec<(String, String)>, Bound<'py, PyBytes>, Vec<Bound<'py, PyBytes>>, PackedColumns<'py>, i64, i64);

/// Groups, period, names of dropped labels, bytes of text.
type Summed<'py> = (Vec<GroupColumns<'py>>, i64, Vec<String>, usize);

#[pyfunction]
#[pyo3(signature = (content, limits, *, states, whole, count, unit_ns, period_ns, dropped))]
#[allow(clippy::too_many_arguments)]
pub fn sum_pprof<'py>(
    py: Python<'py>,
    content: &Bound<'py, PyBytes>,
    limits: Limits,
    states: Vec<(usize, usize)>,
    whole: Option<(usize, usize)>,
    count: Option<usize>,
    unit_ns: i64,
    period_ns: i64,
    dropped: Vec<String>,
) -> PyResult<Summed<'py>> {
    if states.iter().chain(&whole).any(|&(_, state)| state >= STATE_COUNT) {
        return Err(PyValueError::new_err("there is no such state"));
    }
    let bytes = content.as_bytes();
    let values = Values { states: &states, whole, count, unit_ns, period_ns, dropped: &dropped };
    let SummedProfile { stacks, texts: text, groups, period_ns, dropped, text_bytes } =
        py.detach(|| pprof::sum_samples(bytes, &values, limits_of(limits))).map_err(refuse)?;
    let mut columns = Vec::with_capacity(groups.len());
    for group in groups {
        let column = |of: &dyn Fn(&(usize, [i64; STATE_COUNT])) -> [u8; 8]| {
            let mut bytes = Vec::with_capacity(8 * group.rows.len());
            group.rows.iter().for_each(|row| bytes.extend_from_slice(&of(row)));
            PyBytes::new(py, &bytes)
        };
        let hashes = column(&|row| stacks[row.0].0.to_ne_bytes());
        let counts = (0..STATE_COUNT).map(|state| column(&|row| row.1[state].to_ne_bytes())).collect();
        let texts: Vec<&str> = group.rows.iter().map(|row| &text[stacks[row.0].1.clone()]).collect();
        let packed = py
            .detach(|| packed_stacks::pack(&texts, 0..texts.len()))
            .map_err(|_| refuse(Refusal::TooMuchText))?;
        let packed = packed_columns(py, &packed);
        columns.push((group.labels, hashes, counts, packed, group.samples, group.truncated));
    }
    Ok((columns, period_ns, dropped.into_iter().collect(), text_bytes))
}
