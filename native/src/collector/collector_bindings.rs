//! The Python bindings of `folded`, `packed_stacks`, `segment_stacks` and `trie`. Work that takes time runs without
//! the GIL.

use crate::collector::columns::{Lists, MismatchedColumns, Texts};
use crate::collector::folded::{self, FoldLimits, OtherLines};
use crate::collector::packed_stacks::{self, PackedStacks};
use crate::collector::segment_stacks::{self, WindowStacks};
use crate::collector::trie;
use crate::stacks::states::STATE_COUNT;
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use std::sync::{Mutex, PoisonError};

/// Offsets, frames, text offsets and texts of `PackedStacks`.
pub(crate) type PackedColumns<'py> =
    (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

pub(crate) fn packed_columns<'py>(py: Python<'py>, packed: &PackedStacks) -> PackedColumns<'py> {
    let column = |numbers: &[i32]| PyBytes::new(py, &bytes(numbers, i32::to_ne_bytes));
    (
        column(&packed.offsets),
        column(&packed.frames),
        column(&packed.text_offsets),
        PyBytes::new(py, packed.texts.as_bytes()),
    )
}

/// What `fold` gives: hashes, and for each state its counts (64-bit integers in the machine's order), packed stacks,
/// samples, clipped samples, lines, where the next header begins.
type Folded<'py> =
    (Bound<'py, PyBytes>, Vec<Bound<'py, PyBytes>>, PackedColumns<'py>, u128, u128, usize, Option<usize>);

#[pyfunction]
#[pyo3(signature = (body, start = 0, *, remark = None, max_stacks, max_depth))]
pub fn fold<'py>(
    py: Python<'py>,
    body: &Bound<'py, PyBytes>,
    start: usize,
    remark: Option<&str>,
    max_stacks: usize,
    max_depth: usize,
) -> PyResult<Folded<'py>> {
    let text = body.as_bytes();
    let limits = FoldLimits { stacks: max_stacks, depth: max_depth };
    let other_lines = remark.map_or(OtherLines::NextHeader, OtherLines::Comments);
    let (folded, packed) = py.detach(|| {
        let folded = folded::fold(text, start, other_lines, limits)
            .map_err(|refused| PyValueError::new_err(format!("line {} cannot be read", refused.0)))?;
        let packed = folded.pack().map_err(|_| mismatched_columns())?;
        Ok::<_, PyErr>((folded, packed))
    })?;
    let column = |of: &dyn Fn(&folded::StackCounts<'_>) -> [u8; 8]| {
        PyBytes::new(py, &folded.stacks.iter().flat_map(of).collect::<Vec<u8>>())
    };
    Ok((
        column(&|one| one.hash.to_ne_bytes()),
        (0..STATE_COUNT).map(|state| column(&|one| one.counts[state].to_ne_bytes())).collect(),
        packed_columns(py, &packed),
        folded.samples,
        folded.clipped,
        folded.lines,
        folded.next,
    ))
}

#[pyfunction]
pub fn pack_stacks<'py>(py: Python<'py>, stacks: Vec<Bound<'py, PyString>>) -> PyResult<PackedColumns<'py>> {
    let texts = stacks.iter().map(|stack| stack.to_str()).collect::<PyResult<Vec<&str>>>()?;
    let packed =
        py.detach(|| packed_stacks::pack(&texts, 0..texts.len())).map_err(|_| mismatched_columns())?;
    Ok(packed_columns(py, &packed))
}

/// Services, hashes, depths, and the stacks.
type StackTable<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, PackedColumns<'py>);

#[pyfunction]
pub fn build_segment_stacks<'py>(
    py: Python<'py>,
    windows: Vec<(i32, Bound<'py, PyBytes>, PackedColumns<'py>)>,
) -> PyResult<StackTable<'py>> {
    let columns: Vec<(Vec<u64>, [Vec<i32>; 3])> = windows
        .iter()
        .map(|(_, hashes, (offsets, frames, text_offsets, _))| {
            let read = |column: &Bound<'_, PyBytes>| read_column(column, i32::from_ne_bytes);
            (read_column(hashes, u64::from_ne_bytes), [offsets, frames, text_offsets].map(read))
        })
        .collect();
    let windows: Vec<WindowStacks<'_>> = windows
        .iter()
        .zip(&columns)
        .map(|((service, _, (.., texts)), (hashes, [offsets, frames, text_offsets]))| {
            let words = Texts { offsets: text_offsets, bytes: texts.as_bytes() };
            let stacks = Lists { offsets, codes: frames, words };
            WindowStacks { service: *service, hashes, stacks }
        })
        .collect();
    let table = py.detach(|| segment_stacks::build(&windows)).map_err(|_| mismatched_columns())?;
    Ok((
        PyBytes::new(py, &bytes(&table.services, i32::to_ne_bytes)),
        PyBytes::new(py, &bytes(&table.hashes, u64::to_ne_bytes)),
        PyBytes::new(py, &bytes(&table.depths, i32::to_ne_bytes)),
        packed_columns(py, &table.stacks),
    ))
}

/// Names, level, name, for each side samples and microseconds, the node of each stack, nodes there were, and nodes
/// dropped. Columns are 64-bit integers.
type Drawn<'py> = (
    Vec<String>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Vec<Bound<'py, PyBytes>>,
    Vec<Bound<'py, PyBytes>>,
    Bound<'py, PyBytes>,
    usize,
    usize,
);

/// Two columns of bytes.
type TwoColumns<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// A frame, and for each side its samples and nanoseconds: self samples, total samples, self ns, total ns.
type Costs = (String, Vec<(i64, i64, i64, i64)>);

#[pyclass(frozen, module = "sidelight_native")]
pub struct Pool(Mutex<trie::Pool>);

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (first, *, lines))]
    fn new(first: &str, lines: bool) -> Pool {
        Pool(Mutex::new(trie::Pool::new(first, lines)))
    }

    fn __len__(&self) -> usize {
        self.lock().stacks()
    }

    fn take(
        &self,
        py: Python<'_>,
        offsets: Column<i32>,
        codes: Column<i32>,
        word_offsets: Column<i32>,
        words: Column<u8>,
        rows: Column<i32>,
    ) -> PyResult<()> {
        let words = Texts { offsets: word_offsets.slice(), bytes: words.slice() };
        let lists = Lists { offsets: offsets.slice(), codes: codes.slice(), words };
        let rows = rows.slice();
        py.detach(|| self.lock().take(lists, rows)).map_err(|_| mismatched_columns())
    }

    fn draw<'py>(&self, py: Python<'py>, sides: Vec<Side>, most: usize) -> PyResult<Option<Drawn<'py>>> {
        let sides = slices(&sides);
        let drawn = py.detach(|| self.lock().draw(&sides, most)).map_err(|_| mismatched_columns())?;
        Ok(drawn.map(|drawn| {
            let trie::CallTree { names, level, name, samples, microseconds, node, whole, dropped } = drawn;
            let by_side =
                |columns: Vec<Vec<i64>>| columns.iter().map(|column| int_bytes(py, column)).collect();
            (
                names,
                int_bytes(py, &level),
                int_bytes(py, &name),
                by_side(samples),
                by_side(microseconds),
                int_bytes(py, &node),
                whole,
                dropped,
            )
        }))
    }

    fn costs(&self, py: Python<'_>, sides: Vec<Side>) -> PyResult<Option<Vec<Costs>>> {
        let sides = slices(&sides);
        let costs = py.detach(|| self.lock().costs(&sides)).map_err(|_| mismatched_columns())?;
        let numbers =
            |cost: &trie::Cost| (cost.self_samples, cost.total_samples, cost.self_ns, cost.total_ns);
        Ok(costs.map(|rows| {
            rows.into_iter().map(|(text, costs)| (text, costs.iter().map(numbers).collect())).collect()
        }))
    }

    fn words<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.lock().words().collect::<Vec<&str>>())
    }

    fn depths<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &bytes(&self.lock().depths(), i32::to_ne_bytes))
    }

    fn holding<'py>(&self, py: Python<'py>, wanted: Column<u8>) -> PyResult<TwoColumns<'py>> {
        let (any, last) = self.lock().holding(wanted.slice()).map_err(|_| mismatched_columns())?;
        Ok((PyBytes::new(py, &any), PyBytes::new(py, &last)))
    }

    fn walk<'py>(
        &self,
        py: Python<'py>,
        classes: Column<u8>,
        steps: Column<u8>,
        marks: Column<u8>,
        start: u8,
    ) -> PyResult<TwoColumns<'py>> {
        let (classes, automaton) =
            (classes.slice(), trie::Automaton { next: steps.slice(), marks: marks.slice(), start });
        let (states, marked) =
            py.detach(|| self.lock().walk(classes, automaton)).map_err(|_| mismatched_columns())?;
        Ok((PyBytes::new(py, &states), PyBytes::new(py, &bytes(&marked, i32::to_ne_bytes))))
    }

    fn spread<'py>(
        &self,
        py: Python<'py>,
        rows: (Column<i32>, Column<i32>, Column<f64>),
        place: Column<i32>,
        cells: usize,
    ) -> PyResult<TwoColumns<'py>> {
        let rows = trie::Rows { stacks: rows.0.slice(), cells: rows.1.slice(), weights: rows.2.slice() };
        let place = place.slice();
        let found = py.detach(|| {
            let tables = self.lock().cost_tables(rows, place, cells)?;
            Ok((bytes(&tables.self_cost, f64::to_ne_bytes), bytes(&tables.total_cost, f64::to_ne_bytes)))
        });
        let (self_cost, total_cost) = found.map_err(|_: MismatchedColumns| mismatched_columns())?;
        Ok((PyBytes::new(py, &self_cost), PyBytes::new(py, &total_cost)))
    }
}

fn read_column<T, const N: usize>(column: &Bound<'_, PyBytes>, number_of: impl Fn([u8; N]) -> T) -> Vec<T> {
    let (numbers, _) = column.as_bytes().as_chunks();
    numbers.iter().map(|&number| number_of(number)).collect()
}

fn int_bytes<'py, T: Copy + Into<i64>>(py: Python<'py>, numbers: &[T]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &bytes(numbers, |number| number.into().to_ne_bytes()))
}

fn bytes<T: Copy, const N: usize>(numbers: &[T], of: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(numbers.len() * N);
    numbers.iter().for_each(|&number| bytes.extend_from_slice(&of(number)));
    bytes
}

/// Stack numbers, samples, and the nanoseconds that one stands for.
type Side = (Column<i32>, Column<i64>, Column<i64>);

fn slices(sides: &[Side]) -> Vec<trie::Side<'_>> {
    sides
        .iter()
        .map(|(stacks, samples, periods)| trie::Side {
            stacks: stacks.slice(),
            samples: samples.slice(),
            periods: periods.slice(),
        })
        .collect()
}

impl Pool {
    fn lock(&self) -> std::sync::MutexGuard<'_, trie::Pool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn mismatched_columns() -> PyErr {
    PyValueError::new_err("the columns do not fit each other")
}

/// Numbers in somebody else's memory, held for as long as this.
struct Column<T: Element>(PyBuffer<T>);

impl<T: Element> Column<T> {
    fn slice(&self) -> &[T] {
        match self.0.item_count() {
            0 => &[],
            // SAFETY: the buffer is contiguous, aligned and of this type (checked when it was taken) and held. Nobody
            // writes to it meanwhile: it is a column of an Arrow array, which does not change once it is made.
            count => unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), count) },
        }
    }
}

impl<'a, 'py, T: Element> FromPyObject<'a, 'py> for Column<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Column<T>> {
        let buffer = PyBuffer::get(&object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err("a column is contiguous"));
        }
        Ok(Column(buffer))
    }
}
