//! Stacks as the py-spy crate reads them.
//!
//! The crate reads all threads at once or none, and cannot be interrupted. So a reading for which a thread stands
//! still is begun only if the last one took less time than there is; one that took longer is measured anew at the
//! next tick, before anything is stopped.

use crate::cpython::call_entry::Entering;
use crate::cpython::frame_linkage::Linkage;
use crate::cpython::gil_holder_pyspy::Holder;
use crate::stacks::frame_text::Call;
use crate::stacks::stack_interner::{Book, FrameId};
use crate::stacks::stack_reader::{Failure, Gil, StackReader, Stacks, ThreadStack};
use py_spy::config::LockingStrategy;
use py_spy::{Config, PythonSpy, StackTrace};
use std::time::{Duration, Instant};

/// Reads one process through the crate.
pub struct CrateReader {
    spy: PythonSpy,
    /// None where the target moves while it is read: then nothing can be told.
    linkage: Option<Linkage>,
    entering: Entering,
    /// None where it is not known who holds the GIL.
    holder: Option<Holder>,
    max_depth: usize,
    frames: Vec<FrameId>,
    /// What the last reading took.
    takes: Option<Duration>,
    /// It has to be known before the next one is begun.
    measure: bool,
    /// When a reading must be over.
    until: Option<Instant>,
}

impl CrateReader {
    /// Finds the interpreter. `moving`: the target will not stand still while it is read.
    pub fn attach(pid: i32, max_depth: usize, moving: bool) -> Result<CrateReader, Failure> {
        let spy = PythonSpy::new(pid, &config()).map_err(|error| failure(&error))?;
        let version = (spy.version.major, spy.version.minor);
        let linkage = (!moving).then(|| Linkage::of(version, spy.addresses.threadstate_address));
        let holder = Holder::of(version, spy.addresses.threadstate_address);
        // The first reading only proves that there is something to read.
        let entering = Entering::always();
        let (frames, takes, until) = (Vec::new(), None, None);
        Ok(CrateReader { spy, linkage, entering, holder, max_depth, frames, takes, measure: true, until })
    }

    /// The target's Python, like "3.11.7".
    pub fn python(&self) -> String {
        let version = &self.spy.version;
        format!("{}.{}.{}{}", version.major, version.minor, version.patch, version.release_flags)
    }

    /// Whether it can be told which thread holds the GIL.
    pub fn knows_holder(&self) -> bool {
        self.holder.is_some()
    }

    /// All threads. How long it takes is noted only if it comes to an end.
    fn traces(&mut self) -> Result<Vec<StackTrace>, Failure> {
        let began = Instant::now();
        let traces = self.spy.get_stack_traces().map_err(|error| failure(&error))?;
        self.takes = Some(began.elapsed());
        self.measure = false;
        Ok(traces)
    }

    /// Whether the stacks can be believed, or nothing can be done about it.
    fn is_complete(&mut self) -> bool {
        let Some(linkage) = &self.linkage else { return true };
        match linkage.incomplete(&self.spy.process) {
            None => self.entering.not_found(),
            Some(_) if self.entering.is_the_rule() => {}
            Some(moment) => {
                self.entering.found(moment);
                return false;
            }
        }
        true
    }

    fn stack(&mut self, trace: StackTrace, interpreter: usize, book: &mut Book) -> ThreadStack {
        self.frames.clear();
        self.frames.extend(trace.frames.iter().map(|frame| {
            book.frame(&Call {
                function: &frame.name,
                file: frame.short_filename.as_ref().unwrap_or(&frame.filename),
                line: frame.line,
            })
        }));
        let (stack, truncated) = book.stack(&self.frames, self.max_depth);
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

impl StackReader for CrateReader {
    fn interpreters(&mut self) -> Result<Vec<usize>, Failure> {
        if self.measure {
            // It moves: what is found means nothing, and nothing may be found.
            let _ = self.traces();
        }
        Ok(vec![self.spy.addresses.interpreter_address])
    }

    fn max_depth(&self) -> usize {
        self.max_depth
    }

    fn gil(&mut self, _: usize) -> Result<Gil, Failure> {
        // Not known, it is as if somebody held it of whom nothing is known either.
        let unknown = Gil { holder: usize::MAX, ..Gil::default() };
        let Some(holder) = self.holder else { return Ok(unknown) };
        holder.read(&self.spy.process).ok_or_else(|| Failure::new("read", &"the GIL cannot be read"))
    }

    fn deadline(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    fn read(
        &mut self,
        interpreter: usize,
        _ran: &mut dyn FnMut(i32) -> bool,
        book: &mut Book,
    ) -> Result<Stacks, Failure> {
        if let (Some(until), Some(takes)) = (self.until, self.takes) {
            if Instant::now() + takes > until {
                self.measure = true;
                return Err(slow(takes));
            }
        }
        let gil = self.gil(interpreter)?;
        if !self.is_complete() {
            return Err(Failure::passing("read", &"a call was being entered"));
        }
        let traces = self.traces()?;
        let threads = traces.into_iter().map(|trace| self.stack(trace, interpreter, book)).collect();
        Ok(Stacks { threads, gil })
    }
}

fn slow(takes: Duration) -> Failure {
    let message = format!(
        "reading all threads takes {:.1} ms, longer than they may be stopped (max-stop-ms)",
        takes.as_secs_f64() * 1e3
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

/// The crate must not stop the target (we do), and must hide no thread: idle ones are included and what is
/// idle is decided here.
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
