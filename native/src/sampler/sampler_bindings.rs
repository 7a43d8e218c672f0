//! The Python bindings of the sampler.

use crate::ptrace::ptrace_stop::StopLimits;
use crate::sampler::attach::{attach, SessionHandle};
use crate::sampler::messages::{AttachError, ReaderKind, SamplingOptions};
use crate::sampler::sample_once::Mode;
use crate::sampler::{batch, engine};
use pyo3::exceptions::{
    PyMemoryError, PyOSError, PyPermissionError, PyProcessLookupError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One OS thread that samples any number of processes.
#[pyclass(frozen, module = "sidelight_native")]
pub struct Engine {
    engine: Arc<engine::Engine>,
    max_stop: Duration,
    max_stacks: usize,
}

/// Sampling one process.
#[pyclass(frozen, module = "sidelight_native")]
pub struct Session {
    engine: Arc<engine::Engine>,
    attached: SessionHandle,
    pid: i32,
    mode: &'static str,
    reader: &'static str,
    rate_hz: Mutex<f64>,
}

/// What was counted between two takes.
#[pyclass(frozen, get_all, module = "sidelight_native")]
pub struct Batch {
    counts: Py<PyList>,
    start_ns: u64,
    duration_ns: u64,
    attempts: u64,
    samples: u64,
    other: u64,
    errors: Py<PyDict>,
    late_ns: u64,
    threads: usize,
    truncated: u64,
    stops: u64,
    stopped_ns: u64,
    stops_over_limit: u64,
    longest_stop_ns: u64,
    longest_stop_cpu_ns: u64,
    target_cpu_ns: u64,
    sampler_cpu_ns: u64,
    python: String,
    tasks: Option<Py<TaskBatch>>,
}

/// Await stacks of asyncio tasks between two takes.
#[pyclass(frozen, get_all, module = "sidelight_native")]
pub struct TaskBatch {
    rows: Py<PyList>,
    readings: u64,
    failed: u64,
    tasks: f64,
    ready: f64,
    longest_ready_ns: u64,
    loops: usize,
}

/// The last samples one by one.
#[pyclass(frozen, get_all, module = "sidelight_native")]
pub struct Timeline {
    start_ns: u64,
    monotonic_ns: u64,
    threads: Py<PyList>,
    stacks: Py<PyList>,
    samples: Py<PyList>,
    dropped: u64,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (*, max_stop_us = 2000, max_stacks = 50_000))]
    fn new(py: Python<'_>, max_stop_us: u64, max_stacks: usize) -> PyResult<Engine> {
        if max_stop_us == 0 || max_stacks == 0 {
            return Err(PyValueError::new_err("max_stop_us and max_stacks must be at least 1"));
        }
        let engine = Arc::new(engine::Engine::start(reader_command(py)?)?);
        Ok(Engine { engine, max_stop: Duration::from_micros(max_stop_us), max_stacks })
    }

    #[pyo3(signature = (pid, *, rate_hz, mode = "auto", max_depth = 1024, reader = "auto",
                        thread_names = false, timed = 0, timed_names = false, tasks_hz = 0.0, tasks_max = 64))]
    #[allow(clippy::too_many_arguments)]
    fn attach(
        &self,
        py: Python<'_>,
        pid: i32,
        rate_hz: f64,
        mode: &str,
        max_depth: usize,
        reader: &str,
        thread_names: bool,
        timed: usize,
        timed_names: bool,
        tasks_hz: f64,
        tasks_max: usize,
    ) -> PyResult<Session> {
        if max_depth == 0 {
            return Err(PyValueError::new_err("max_depth must be at least 1"));
        }
        if tasks_max == 0 {
            return Err(PyValueError::new_err("tasks_max must be at least 1"));
        }
        let options = SamplingOptions {
            period_ns: period_ns("rate_hz", rate_hz)?,
            mode: parse_mode(mode)?,
            reader: parse_reader(reader)?,
            max_depth,
            max_stacks: self.max_stacks,
            limits: StopLimits { max_stop: self.max_stop, ..StopLimits::default() },
            names: thread_names,
            timed_names,
            timed,
            tasks_period_ns: period_ns("tasks_hz", tasks_hz)?,
            max_tasks: tasks_max,
        };
        let attached = py.detach(|| attach(&self.engine, pid, &options))?;
        let mode = match attached.method.mode {
            Mode::Gil => "gil",
            Mode::Blocking => "blocking",
            Mode::Nonblocking => "nonblocking",
        };
        let reader = match attached.method.reader {
            ReaderKind::Cpython => "own",
            ReaderKind::PySpy => "py-spy",
        };
        let (engine, rate_hz) = (Arc::clone(&self.engine), Mutex::new(rate_hz));
        Ok(Session { engine, attached, pid, mode, reader, rate_hz })
    }

    fn close(&self) {
        self.engine.close();
    }

    #[getter]
    fn cpu_ns(&self) -> u64 {
        self.engine.cpu_ns()
    }
}

#[pymethods]
impl Session {
    fn take(&self, py: Python<'_>) -> PyResult<Batch> {
        let taken = py.detach(|| self.attached.session.take());
        self.batch(py, &taken)
    }

    fn stop(&self, py: Python<'_>) -> PyResult<Batch> {
        py.detach(|| self.engine.stop(self.attached.id, &self.attached.session));
        self.take(py)
    }

    fn set_rate(&self, py: Python<'_>, rate_hz: f64) -> PyResult<()> {
        let period_ns = period_ns("rate_hz", rate_hz)?;
        py.detach(|| self.engine.set_period(self.attached.id, period_ns));
        *self.rate_hz.lock().unwrap_or_else(PoisonError::into_inner) = rate_hz;
        Ok(())
    }

    #[pyo3(signature = (seconds = None, *, after = 0))]
    fn timeline(&self, py: Python<'_>, seconds: Option<f64>, after: u64) -> PyResult<Timeline> {
        let ns = match seconds {
            None => u64::MAX,
            Some(seconds) if seconds >= 0.0 => (seconds * 1e9) as u64,
            Some(seconds) => return Err(PyValueError::new_err(format!("seconds must not be {seconds}"))),
        };
        let timeline = py.detach(|| self.attached.session.timeline(ns, after));
        Ok(Timeline {
            start_ns: timeline.start_ns,
            monotonic_ns: timeline.monotonic_ns,
            threads: PyList::new(py, timeline.threads)?.unbind(),
            stacks: PyList::new(py, timeline.stacks)?.unbind(),
            samples: PyList::new(py, timeline.samples)?.unbind(),
            dropped: timeline.dropped,
        })
    }

    #[getter]
    fn pid(&self) -> i32 {
        self.pid
    }

    #[getter]
    fn mode(&self) -> &'static str {
        self.mode
    }

    #[getter]
    fn reader(&self) -> &'static str {
        self.reader
    }

    #[getter]
    fn python(&self) -> &str {
        &self.attached.method.python
    }

    #[getter]
    fn missing_states(&self) -> Vec<&'static str> {
        self.attached.method.missing_states.clone()
    }

    #[getter]
    fn names_problem(&self) -> Option<&str> {
        self.attached.method.names_problem.as_deref()
    }

    #[getter]
    fn rate_hz(&self) -> f64 {
        *self.rate_hz.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[getter]
    fn ended(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.attached.session.ended())
    }
}

impl Session {
    fn batch(&self, py: Python<'_>, taken: &batch::Batch) -> PyResult<Batch> {
        let quality = &taken.quality;
        let errors = PyDict::new(py);
        for (kind, times) in &quality.errors {
            errors.set_item(kind, times)?;
        }
        let rows = py.detach(|| taken.rows());
        let rows = rows.into_iter().map(
            |(thread, stack, [idle, running, gil, cpu_wait, gil_wait, lock, poll, io, sleep])| {
                (thread, stack, idle, running, gil, cpu_wait, gil_wait, lock, poll, io, sleep)
            },
        );
        let tasks = match &taken.tasks {
            None => None,
            Some(tasks) => {
                let sums = tasks.sums;
                let batch = TaskBatch {
                    rows: PyList::new(py, py.detach(|| taken.task_rows()))?.unbind(),
                    readings: sums.readings,
                    failed: sums.failed,
                    tasks: sums.tasks,
                    ready: sums.ready,
                    longest_ready_ns: sums.longest_ready_ns,
                    loops: sums.loops,
                };
                Some(Py::new(py, batch)?)
            }
        };
        Ok(Batch {
            tasks,
            counts: PyList::new(py, rows.collect::<Vec<_>>())?.unbind(),
            start_ns: taken.start_ns,
            duration_ns: taken.duration_ns,
            attempts: quality.attempts,
            samples: taken.samples,
            other: taken.other,
            errors: errors.unbind(),
            late_ns: quality.late_ns,
            threads: quality.threads,
            truncated: quality.truncated,
            stops: quality.stops.stops,
            stopped_ns: quality.stops.stopped_ns,
            stops_over_limit: quality.stops.over_limit,
            longest_stop_ns: quality.stops.longest_ns,
            longest_stop_cpu_ns: quality.stops.longest_cpu_ns,
            target_cpu_ns: taken.target_cpu_ns,
            sampler_cpu_ns: taken.sampler_cpu_ns,
            python: self.attached.method.python.clone(),
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.engine.end(self.attached.id);
    }
}

impl From<AttachError> for PyErr {
    fn from(error: AttachError) -> PyErr {
        match error {
            AttachError::Gone(message) => PyProcessLookupError::new_err(message),
            AttachError::Denied(message) => PyPermissionError::new_err(message),
            AttachError::Descriptors(message) => PyOSError::new_err((libc::EMFILE, message)),
            AttachError::Unsupported(message) => PyValueError::new_err(message),
            AttachError::Exceeded(message) => PyMemoryError::new_err(message),
            AttachError::Slow(message) | AttachError::Engine(message) => PyRuntimeError::new_err(message),
        }
    }
}

/// Starts this Python with nothing but this extension, to be the parent of reader processes.
fn reader_command(py: Python<'_>) -> PyResult<Vec<String>> {
    const PROGRAM: &str =
        "import sys; sys.path.insert(0, sys.argv[1]); import sidelight_native; sidelight_native.serve_readers()";
    let python: String = py.import("sys")?.getattr("executable")?.extract()?;
    let module: PathBuf = py.import("sidelight_native")?.getattr("__file__")?.extract()?;
    // The extension, or a package with it.
    let folder = module.ancestors().nth(if module.ends_with("__init__.py") { 2 } else { 1 });
    let folder = folder.unwrap_or(&module).to_string_lossy().into_owned();
    Ok([&python, "-I", "-S", "-c", PROGRAM, &folder].map(str::to_owned).to_vec())
}

/// None pauses.
fn period_ns(name: &str, rate_hz: f64) -> PyResult<Option<u64>> {
    match rate_hz {
        0.0 => Ok(None),
        rate_hz if rate_hz > 0.0 && rate_hz <= 10_000.0 => Ok(Some((1e9 / rate_hz) as u64)),
        _ => {
            let message = format!("{name} must be at least 0 and at most 10000, not {rate_hz}");
            Err(PyValueError::new_err(message))
        }
    }
}

/// None: whichever fits.
fn parse_mode(mode: &str) -> PyResult<Option<Mode>> {
    match mode {
        "auto" => Ok(None),
        "gil" => Ok(Some(Mode::Gil)),
        "blocking" => Ok(Some(Mode::Blocking)),
        "nonblocking" => Ok(Some(Mode::Nonblocking)),
        other => {
            let message =
                format!("mode must be \"auto\", \"gil\", \"blocking\" or \"nonblocking\", not {other:?}");
            Err(PyValueError::new_err(message))
        }
    }
}

/// None: whichever fits.
fn parse_reader(reader: &str) -> PyResult<Option<ReaderKind>> {
    match reader {
        "auto" => Ok(None),
        "own" => Ok(Some(ReaderKind::Cpython)),
        "py-spy" => Ok(Some(ReaderKind::PySpy)),
        other => {
            let message = format!("reader must be \"auto\", \"own\" or \"py-spy\", not {other:?}");
            Err(PyValueError::new_err(message))
        }
    }
}
