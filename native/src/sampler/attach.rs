//! From a pid to a process that can be sampled, or to the reason why it cannot.

use crate::cpython::cpython_reader::Own;
use crate::cpython::pyspy_reader::CrateReader;
use crate::cpython::thread_names::Names;
use crate::linux::os::thread_cpu_ns;
use crate::linux::target::{tracer, Presence, Target};
use crate::linux::threads;
use crate::sampler::engine::Engine;
use crate::sampler::messages::{AttachError, By, Plan};
use crate::sampler::sample_once::{Mode, Ticker};
use crate::sampler::shared_session::Watch;
use crate::stacks::stack_reader::{Failure, StackReader};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Attaching fails now and then while a process starts or its interpreter moves; it is tried this often.
const TRIES: u32 = 10;
/// Of these so many with the own reader, where another will do.
const TRIES_OF_OWN: u32 = 3;
const PAUSE: Duration = Duration::from_millis(20);

/// A process in the hands of an engine.
#[derive(Debug)]
pub struct Attached {
    pub id: u64,
    pub watch: Arc<Watch>,
    pub how: How,
}

/// How a process is sampled.
#[derive(Clone, Debug)]
pub struct How {
    pub mode: Mode,
    pub reader: By,
    /// The target's Python, like "3.11.7".
    pub python: String,
}

/// Finds the interpreter of `pid`, here, and has the engine make a first reading and go on from there.
pub fn attach(engine: &Engine, pid: i32, plan: &Plan) -> Result<Attached, AttachError> {
    let target = Arc::new(Target::open(pid).map_err(|_| gone(pid))?);
    if let Err(error) = target.may_be_traced() {
        return Err(refused(&target, &Failure::new("read", &error)));
    }
    let began_ns = thread_cpu_ns();
    let mut tries = 0;
    loop {
        if target.presence() == Presence::Stopped {
            let message = format!("process {pid} is stopped (state T): continue it first");
            return Err(AttachError::Unsupported(message));
        }
        let failure = match prepare(&target, plan, tries) {
            Ok((ticker, how)) => match engine.watch(ticker, plan, thread_cpu_ns() - began_ns)? {
                Ok((id, watch)) => return Ok(Attached { id, watch, how }),
                Err(failure) => failure,
            },
            Err(failure) => failure,
        };
        if target.presence() == Presence::Exited {
            return Err(gone(pid));
        }
        if tries == TRIES {
            return Err(refused(&target, &failure));
        }
        tries += 1;
        thread::sleep(PAUSE);
    }
}

fn prepare(target: &Arc<Target>, plan: &Plan, tries: u32) -> Result<(Ticker, How), Failure> {
    let moving = plan.mode == Some(Mode::Nonblocking);
    if let Some(tracer) = other_tracer(target.pid).filter(|_| !moving) {
        // While it waits it could be read, but not once it works.
        return Err(Failure::new("traced", &format!("process {tracer} traces it")));
    }
    let (reader, mut how) = find(target.pid, plan, tries)?;
    how.mode = match plan.mode {
        Some(Mode::Gil) if how.mode != Mode::Gil => {
            let message = format!(
                "it is not known which thread of a Python {} holds the GIL: use mode blocking",
                how.python
            );
            return Err(Failure::new("other", &message));
        }
        asked => asked.unwrap_or(how.mode),
    };
    let named = plan.names || plan.timed_names;
    let names = named.then(|| Names::of(target.pid, plan.names)).transpose();
    let names = names.map_err(|error| Failure::new("other", &error))?;
    let ticker = Ticker::new(Arc::clone(target), how.mode, reader, plan.limits, names)?;
    Ok((ticker, how))
}

/// A reader for the process, and the best way to sample with it.
fn find(pid: i32, plan: &Plan, tries: u32) -> Result<(Box<dyn StackReader>, How), Failure> {
    if plan.reader != Some(By::PySpy) {
        match Own::attach(pid, plan.max_depth) {
            Ok(own) => {
                let how = How { mode: Mode::Gil, reader: By::Own, python: own.python() };
                return Ok((Box::new(own), how));
            }
            Err(failure) if plan.reader == Some(By::Own) => return Err(failure),
            // It may be starting.
            Err(failure) if failure.kind == "read" && tries < TRIES_OF_OWN => return Err(failure),
            Err(_) => {}
        }
    }
    let moving = plan.mode == Some(Mode::Nonblocking);
    let reader = CrateReader::attach(pid, plan.max_depth, moving)?;
    let mode = if reader.knows_holder() { Mode::Gil } else { Mode::Blocking };
    let how = How { mode, reader: By::PySpy, python: reader.python() };
    Ok((Box::new(reader), how))
}

fn gone(pid: i32) -> AttachError {
    AttachError::Gone(format!("there is no process {pid}"))
}

fn refused(target: &Target, failure: &Failure) -> AttachError {
    let (pid, why) = (target.pid, &failure.message);
    match target.presence() {
        Presence::Exited => gone(pid),
        _ if failure.kind == "traced" => AttachError::Denied(match other_tracer(pid) {
            Some(tracer) => format!("process {pid} is already traced by process {tracer}"),
            None => format!("process {pid}: {why}"),
        }),
        _ if ["os error 1)", "os error 13)", "EPERM"].iter().any(|denied| why.contains(denied)) => {
            AttachError::Denied(format!("not allowed to read process {pid}: {why}"))
        }
        _ if failure.kind == "slow" => AttachError::Slow(format!("process {pid}: {why}")),
        _ => AttachError::Unsupported(format!("process {pid} is no Python that can be sampled: {why}")),
    }
}

/// Whoever traces a thread of the process.
fn other_tracer(pid: i32) -> Option<i32> {
    threads::list(pid).ok()?.into_iter().find_map(tracer)
}
