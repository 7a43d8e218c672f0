//! Attaching: from a pid to a process that can be sampled, or to the reason why it cannot.

use crate::asyncio::task_reader::TaskReader;
use crate::cpython::cpython_reader::CpythonReader;
use crate::cpython::pyspy_reader::PySpyReader;
use crate::cpython::runtime::FREE_THREADED;
use crate::cpython::thread_names::ThreadNames;
use crate::linux::os::thread_cpu_ns;
use crate::linux::proc_file::is_exhausted;
use crate::linux::target::{is_gone, tracer_of, Presence, Target};
use crate::linux::threads;
use crate::reader_process::client::EXCEEDED;
use crate::sampler::engine::Engine;
use crate::sampler::messages::{AttachError, ReaderKind, SamplingOptions};
use crate::sampler::sample_once::{Mode, ProcessSampler};
use crate::sampler::sampling_loop::guarded;
use crate::sampler::shared_session::SharedSession;
use crate::stacks::stack_reader::{Failure, StackReader};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

/// How often attaching is retried: it fails now and then while a process starts or its interpreter runs.
const TRIES: u32 = 10;
/// As many of these use the CPython reader, where the py-spy reader is an alternative.
const CPYTHON_READER_TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(20);
/// Attaching is not tried again after this time.
const MAX_DURATION: Duration = Duration::from_secs(15);

/// A session of the engine: one process that it samples.
#[derive(Debug)]
pub struct SessionHandle {
    pub id: u64,
    pub session: Arc<SharedSession>,
    pub method: SamplingMethod,
}

/// How a process is sampled.
#[derive(Clone, Debug)]
pub struct SamplingMethod {
    pub mode: Mode,
    pub reader: ReaderKind,
    /// The target's Python, like "3.11.7".
    pub python: String,
    /// States that cannot be told apart.
    pub missing_states: Vec<&'static str>,
    /// Why the names of threads cannot be read; None if they can, or are not wanted.
    pub names_problem: Option<String>,
}

/// Finds the interpreter of `pid`, here, and has the engine make a first reading and go on from there.
pub fn attach(engine: &Engine, pid: i32, options: &SamplingOptions) -> Result<SessionHandle, AttachError> {
    let target = Arc::new(Target::open(pid).map_err(|error| cannot_open(pid, &error))?);
    if let Err(error) = target.check_trace_permission() {
        return Err(attach_error(&target, &Failure::new("read", &error)));
    }
    let (began, began_ns) = (Instant::now(), thread_cpu_ns());
    let mut tries = 0;
    loop {
        if target.presence() == Presence::Stopped {
            let message = format!("process {pid} is stopped (state T): continue it first");
            return Err(AttachError::Unsupported(message));
        }
        let failure =
            match guarded(|| prepare(engine, &target, options, tries)).map_err(|(failure, _)| failure) {
                Ok((sampler, method)) => {
                    match engine.start_session(sampler, options, thread_cpu_ns() - began_ns)? {
                        Ok((id, session)) => return Ok(SessionHandle { id, session, method }),
                        Err(failure) => failure,
                    }
                }
                Err(failure) => failure,
            };
        if target.presence() == Presence::Exited {
            return Err(no_such_process(pid));
        }
        let is_final = [EXCEEDED, FREE_THREADED].contains(&failure.kind);
        if tries == TRIES || is_final || began.elapsed() > MAX_DURATION {
            return Err(attach_error(&target, &failure));
        }
        tries += 1;
        thread::sleep(PAUSE);
    }
}

fn prepare(
    engine: &Engine,
    target: &Arc<Target>,
    options: &SamplingOptions,
    tries: u32,
) -> Result<(ProcessSampler, SamplingMethod), Failure> {
    let running = options.mode == Some(Mode::Nonblocking);
    if let Some(tracer) = other_tracer(target.pid).filter(|_| !running) {
        // While it waits it could be read, but not once it works.
        return Err(Failure::new("traced", &format!("process {tracer} traces it")));
    }
    let (reader, mut method, tasks) = find_reader(engine, target.pid, options, tries)?;
    method.mode = match options.mode {
        Some(Mode::Gil) if method.mode != Mode::Gil => {
            let message = format!(
                "it is not known which thread of a Python {} holds the GIL: use mode blocking",
                method.python
            );
            return Err(Failure::new("other", &message));
        }
        requested => requested.unwrap_or(method.mode),
    };
    let mut named = options.names || options.timed_names;
    if named && !reader.has_gil() {
        // The py-spy crate, which reads them, knows no free-threaded builds.
        (named, method.names_problem) = (false, Some("it is a free-threaded build".into()));
    }
    let processes = &engine.reader_processes;
    let names = match named.then(|| ThreadNames::new(target.pid, processes, options.names)).transpose() {
        // It opens the files of the process, and they may be gone.
        Err(failure) if failure.kind == "other" && method.reader == ReaderKind::Cpython => {
            method.names_problem = Some(failure.message);
            None
        }
        names => names?,
    };
    let mut sampler = ProcessSampler::new(Arc::clone(target), method.mode, reader, options.limits, names)?;
    sampler.tasks = tasks;
    method.missing_states = sampler.missing_states();
    Ok((sampler, method))
}

/// A reader of stacks, how to sample with it, and a reader of tasks.
type FoundReader = (Box<dyn StackReader>, SamplingMethod, Option<TaskReader>);

/// A reader for the process, and the best way to sample with it.
fn find_reader(
    engine: &Engine,
    pid: i32,
    options: &SamplingOptions,
    tries: u32,
) -> Result<FoundReader, Failure> {
    if options.reader != Some(ReaderKind::PySpy) {
        match CpythonReader::attach(pid, Some(&engine.reader_processes), options.max_depth) {
            Ok(reader) => {
                let method = SamplingMethod {
                    mode: Mode::Gil,
                    reader: ReaderKind::Cpython,
                    python: reader.python(),
                    missing_states: Vec::new(),
                    names_problem: None,
                };
                let new = |_| {
                    // Offsets of tasks are known with a GIL.
                    reader.layout().has_gil().then_some(())?;
                    let (layout, depth) = (reader.layout(), options.max_depth);
                    TaskReader::new(pid, layout, &reader.python(), depth, options.max_tasks)
                };
                let tasks = options.tasks_period_ns.and_then(new);
                return Ok((Box::new(reader), method, tasks));
            }
            Err(failure) if options.reader == Some(ReaderKind::Cpython) => return Err(failure),
            Err(failure) if [EXCEEDED, FREE_THREADED].contains(&failure.kind) => return Err(failure),
            Err(failure) if failure.is_out_of_descriptors() => return Err(failure),
            // It may be starting.
            Err(failure) if failure.kind == "read" && tries < CPYTHON_READER_TRIES => return Err(failure),
            Err(_) => {}
        }
    }
    let running = options.mode == Some(Mode::Nonblocking);
    let reader = PySpyReader::attach(pid, &engine.reader_processes, options.max_depth, running)?;
    let mode = if reader.can_read_gil_holder() { Mode::Gil } else { Mode::Blocking };
    let method = SamplingMethod {
        mode,
        reader: ReaderKind::PySpy,
        python: reader.python(),
        missing_states: Vec::new(),
        names_problem: None,
    };
    Ok((Box::new(reader), method, None))
}

fn cannot_open(pid: i32, error: &io::Error) -> AttachError {
    let message = format!("process {pid}: {error}");
    match error.kind() {
        _ if is_gone(error) => no_such_process(pid),
        _ if is_exhausted(error) => AttachError::Descriptors(message),
        io::ErrorKind::PermissionDenied => AttachError::Denied(message),
        _ => AttachError::Unsupported(message),
    }
}

fn no_such_process(pid: i32) -> AttachError {
    AttachError::Gone(format!("there is no process {pid}"))
}

fn attach_error(target: &Target, failure: &Failure) -> AttachError {
    let (pid, why) = (target.pid, &failure.message);
    match target.presence() {
        Presence::Exited => no_such_process(pid),
        _ if failure.is_out_of_descriptors() => AttachError::Descriptors(format!("process {pid}: {why}")),
        _ if failure.kind == "traced" => AttachError::Denied(match other_tracer(pid) {
            Some(tracer) => format!("process {pid} is already traced by process {tracer}"),
            None => format!("process {pid}: {why}"),
        }),
        _ if ["os error 1)", "os error 13)", "EPERM"].iter().any(|denied| why.contains(denied)) => {
            AttachError::Denied(format!("not allowed to read process {pid}: {why}"))
        }
        _ if failure.kind == EXCEEDED => AttachError::Exceeded(format!("process {pid}: {why}")),
        // It may work the next time.
        _ if ["slow", "moved", "unstoppable"].contains(&failure.kind) => {
            AttachError::Slow(format!("process {pid}: {why}"))
        }
        _ => AttachError::Unsupported(format!("process {pid} is no Python that can be sampled: {why}")),
    }
}

/// Whoever traces a thread of the process.
fn other_tracer(pid: i32) -> Option<i32> {
    threads::list_tids(pid).ok()?.into_iter().find_map(|tid| tracer_of(tid).ok().flatten())
}
