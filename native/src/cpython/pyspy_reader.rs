//! The reader over the py-spy crate, for every other version of Python.
//!
//! The crate reads all threads at once and cannot be interrupted. So a reading during a stop begins only if the
//! last one took less time than is left. A reading that took longer is measured again at the next tick, before
//! anything is stopped.

use crate::cpython::call_entry::CallEntry;
use crate::cpython::frame_linkage::FrameLinkage;
use crate::cpython::gil_holder_pyspy::GilHolder;
use crate::stacks::frame_text::Call;
use crate::stacks::stack_interner::{FrameId, StackInterner};
use crate::stacks::stack_reader::{Failure, GilState, StackReader, Stacks, ThreadStack};
use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy, StackTrace};
use std::time::{Duration, Instant};

/// Reads one process through the crate.
pub struct PySpyReader {
    spy: PythonSpy,
    /// None where the target runs while it is read: then nothing can be checked.
    linkage: Option<FrameLinkage>,
    call_entry: CallEntry,
    /// None where the holder of the GIL cannot be read.
    holder: Option<GilHolder>,
    max_depth: usize,
    frames: Vec<FrameId>,
    /// Duration of the last complete reading.
    last_duration: Option<Duration>,
    /// A reading has to be timed before the next stop.
    must_measure: bool,
    /// The time by which a reading must end.
    deadline: Option<Instant>,
}

impl PySpyReader {
    /// Finds the interpreter. `running`: the target is not stopped while it is read.
    pub fn attach(pid: i32, max_depth: usize, running: bool) -> Result<PySpyReader, Failure> {
        let spy = PythonSpy::new(pid, &config()).map_err(|error| failure(&error))?;
        let version = (spy.version.major, spy.version.minor);
        let linkage = (!running).then(|| FrameLinkage::new(version, spy.addresses.threadstate_address));
        let holder = GilHolder::new(version, spy.addresses.threadstate_address);
        // The first reading only proves that there is something to read.
        let call_entry = CallEntry::persistent();
        let (frames, last_duration, deadline) = (Vec::new(), None, None);
        Ok(PySpyReader {
            spy,
            linkage,
            call_entry,
            holder,
            max_depth,
            frames,
            last_duration,
            must_measure: true,
            deadline,
        })
    }

    /// The target's Python, like "3.11.7".
    pub fn python(&self) -> String {
        let version = &self.spy.version;
        format!("{}.{}.{}{}", version.major, version.minor, version.patch, version.release_flags)
    }

    /// Whether the thread that holds the GIL can be identified.
    pub fn can_read_gil_holder(&self) -> bool {
        self.holder.is_some()
    }

    /// Reads all threads. Notes the duration only of a complete reading.
    fn read_traces(&mut self) -> Result<Vec<StackTrace>, Failure> {
        let began = Instant::now();
        let traces = self.spy.get_stack_traces().map_err(|error| failure(&error))?;
        self.last_duration = Some(began.elapsed());
        self.must_measure = false;
        Ok(traces)
    }

    /// Whether the stacks are consistent, or never will be.
    fn is_complete(&mut self) -> bool {
        let Some(linkage) = &self.linkage else { return true };
        match linkage.incomplete_fingerprint(&self.spy.process) {
            None => self.call_entry.reset(),
            Some(_) if self.call_entry.is_persistent() => {}
            Some(moment) => {
                self.call_entry.record(moment);
                return false;
            }
        }
        true
    }

    fn stack(&mut self, trace: StackTrace, interpreter: usize, interner: &mut StackInterner) -> ThreadStack {
        self.frames.clear();
        self.frames.extend(trace.frames.iter().map(|frame| {
            interner.intern_frame(&Call {
                function: &frame.name,
                file: frame.short_filename.as_ref().unwrap_or(&frame.filename),
                line: frame.line,
            })
        }));
        let (stack, truncated) = interner.intern_stack(&self.frames, self.max_depth);
        ThreadStack {
            thread_id: trace.thread_id,
            native_id: trace.os_thread_id.and_then(|id| i32::try_from(id).ok()),
            interpreter,
            owns_gil: trace.owns_gil,
            active: trace.active,
            stack,
            truncated,
            failed: false,
        }
    }
}

impl StackReader for PySpyReader {
    fn interpreters(&mut self) -> Result<Vec<usize>, Failure> {
        if self.must_measure {
            // The target runs: the stacks mean nothing, only the duration counts.
            let _ = self.read_traces();
        }
        Ok(vec![self.spy.addresses.interpreter_address])
    }

    fn max_depth(&self) -> usize {
        self.max_depth
    }

    fn gil(&mut self, _: usize) -> Result<GilState, Failure> {
        // An unknown holder counts as a thread that cannot be identified.
        let unknown = GilState { holder: usize::MAX, ..GilState::default() };
        let Some(holder) = self.holder else { return Ok(unknown) };
        holder.read(&self.spy.process).ok_or_else(|| Failure::new("read", &"the GIL cannot be read"))
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    fn read(
        &mut self,
        interpreter: usize,
        _ran: &mut dyn FnMut(i32) -> bool,
        interner: &mut StackInterner,
    ) -> Result<Stacks, Failure> {
        if let (Some(deadline), Some(last_duration)) = (self.deadline, self.last_duration) {
            if Instant::now() + last_duration > deadline {
                self.must_measure = true;
                return Err(slow(last_duration));
            }
        }
        let gil = self.gil(interpreter)?;
        if !self.is_complete() {
            return Err(Failure::transient("read", &"a call was being entered"));
        }
        let traces = self.read_traces()?;
        let threads = traces.into_iter().map(|trace| self.stack(trace, interpreter, interner)).collect();
        Ok(Stacks { threads, gil })
    }
}

fn slow(last_duration: Duration) -> Failure {
    let message = format!(
        "reading all threads takes {:.1} ms, longer than they may be stopped (max-stop-ms)",
        last_duration.as_secs_f64() * 1e3
    );
    Failure::new("slow", &message)
}

fn failure(error: &anyhow::Error) -> Failure {
    let message = format!("{error:#}");
    let kind = match message.as_str() {
        text if text.contains("recursion depth") => "depth",
        text if text.contains("copy") || text.contains("os error") => "read",
        _ => "other",
    };
    Failure::new(kind, &message)
}

/// The crate must not stop the target (`ptrace_stop` does), and must include idle threads: `counts` decides which
/// threads are idle.
fn config() -> Config {
    Config {
        blocking: LockingStrategy::NonBlocking,
        include_idle: true,
        gil_only: false,
        native: false,
        subprocesses: false,
        collect_thread_names: false,
        dump_locals: 0,
        full_filenames: false,
        ..Config::default()
    }
}
