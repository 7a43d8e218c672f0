//! The reader over the py-spy crate, for every other version of Python.
//!
//! The crate runs in a reader process of its own: it cannot be interrupted, and trusts the sizes that it finds in the
//! target. It reads all threads at once. So a reading during a stop begins only if the last one took less time than is
//! left. A reading that took longer is measured again at the next tick, before anything is stopped. A reading that is
//! not there in time is waited for at later ticks, so that other processes are sampled meanwhile.

use crate::cpython::call_entry::CallEntry;
use crate::cpython::frame_linkage::FrameLinkage;
use crate::cpython::gil_holder_pyspy::GilHolder;
use crate::linux::target::living_thread;
use crate::reader_process::client::{ReaderProcess, ReaderProcesses};
use crate::reader_process::messages::{Answer, Attached, RawFrame, RawStacks, RawThread, Reply, Request};
use crate::stacks::frame_text::Call;
use crate::stacks::stack_interner::{FrameId, StackInterner};
use crate::stacks::stack_reader::{
    Failure, GilState, MemoryReading, StackReader, Stacks, ThreadStack, Verify, DESCRIPTORS,
};
use remoteprocess::Process;
use std::time::{Duration, Instant};

/// The sampling thread waits no longer for a reading that is only measured.
const MAX_MEASURE_WAIT: Duration = Duration::from_millis(5);
/// The same for a reading while nothing is stopped.
const MAX_READ_WAIT: Duration = Duration::from_millis(100);

/// Reads one process through the crate.
pub struct PySpyReader {
    pid: i32,
    process: ReaderProcess,
    /// The target's memory, by the id of a thread that has not ended.
    memory: Process,
    attached: Attached,
    /// None where the target runs while it is read: then nothing can be checked.
    linkage: Option<FrameLinkage>,
    call_entry: CallEntry,
    /// None where the holder of the GIL cannot be read.
    holder: Option<GilHolder>,
    max_depth: usize,
    /// Duration of the last complete reading.
    last_duration: Duration,
    /// A reading has to be timed before the next stop.
    must_measure: bool,
    /// The time by which a reading must end.
    deadline: Option<Instant>,
}

impl PySpyReader {
    /// Finds the interpreter. `running`: the target is not stopped while it is read.
    pub fn attach(
        pid: i32,
        processes: &ReaderProcesses,
        max_depth: usize,
        running: bool,
    ) -> Result<PySpyReader, Failure> {
        let mut process = processes.start()?;
        let tid = living_thread(pid).unwrap_or(pid);
        let memory = Process::new(tid).map_err(|error| Failure::new("read", &error))?;
        let attached = match process.call(Request::Attach { pid })?.result {
            Ok(Answer::Attached(attached)) => attached,
            Ok(_) => return Err(Failure::new("other", &"a reader process gave another answer")),
            Err(message) => return Err(failure(&message)),
        };
        let version = (attached.version.major, attached.version.minor);
        let threadstate = attached.threadstate as usize;
        let linkage = (!running).then(|| FrameLinkage::new(version, threadstate));
        let holder = GilHolder::new(version, threadstate);
        // The target runs: the stacks mean nothing, only the duration counts.
        let last_duration = Duration::from_nanos(process.call(Request::Read)?.took_ns);
        // The first reading only proves that there is something to read.
        let call_entry = CallEntry::persistent();
        Ok(PySpyReader {
            pid,
            process,
            memory,
            attached,
            linkage,
            call_entry,
            holder,
            max_depth,
            last_duration,
            must_measure: false,
            deadline: None,
        })
    }

    /// The target's Python, like "3.11.7".
    pub fn python(&self) -> String {
        self.attached.version.to_string()
    }

    /// Whether the thread that holds the GIL can be identified.
    pub fn can_read_gil_holder(&self) -> bool {
        self.holder.is_some()
    }

    /// Reads all threads.
    fn read_stacks(&mut self) -> Result<RawStacks, Failure> {
        self.finish_pending()?;
        self.process.send(Request::Read)?;
        let latest = self.deadline.unwrap_or_else(|| Instant::now() + MAX_READ_WAIT);
        match self.process.receive(latest)? {
            Some(Reply { took_ns, result: Ok(Answer::Stacks(stacks)), .. }) => {
                self.last_duration = Duration::from_nanos(took_ns);
                Ok(stacks)
            }
            Some(Reply { result: Err(message), .. }) => Err(failure(&message)),
            Some(_) => Err(Failure::new("other", &"a reader process gave another answer")),
            None => {
                self.must_measure = true;
                Err(slow(MAX_READ_WAIT.max(self.last_duration)))
            }
        }
    }

    /// Measures how long a reading takes: its stacks are not used.
    fn measure(&mut self) -> Result<(), Failure> {
        if !self.process.is_pending() {
            self.process.send(Request::Read)?;
        }
        match self.process.receive(Instant::now() + MAX_MEASURE_WAIT)? {
            Some(reply) => {
                self.last_duration = Duration::from_nanos(reply.took_ns);
                self.must_measure = false;
                Ok(())
            }
            None => Err(slow(self.last_duration.max(MAX_MEASURE_WAIT))),
        }
    }

    /// Drops the reply to an earlier request. An error if it is still not there.
    fn finish_pending(&mut self) -> Result<(), Failure> {
        if self.process.is_pending() && self.process.receive(Instant::now())?.is_none() {
            return Err(slow(self.last_duration));
        }
        Ok(())
    }

    /// Whether the stacks are consistent, or never will be.
    fn is_complete(&mut self) -> bool {
        let Some(linkage) = &self.linkage else { return true };
        match linkage.incomplete_fingerprint(&self.memory) {
            None => self.call_entry.reset(),
            Some(_) if self.call_entry.is_persistent() => {}
            Some(moment) => {
                self.call_entry.record(moment);
                return false;
            }
        }
        true
    }

    fn intern(
        &self,
        stacks: RawStacks,
        interpreter: usize,
        interner: &mut StackInterner,
    ) -> Vec<ThreadStack> {
        let intern_frame = |frame: &RawFrame| {
            interner.intern_frame(&Call { function: &frame.function, file: &frame.file, line: frame.line })
        };
        let ids: Vec<FrameId> = stacks.frames.iter().map(intern_frame).collect();
        let mut frames = Vec::new();
        let mut intern_thread = |thread: RawThread| {
            frames.clear();
            frames.extend(thread.frames.iter().filter_map(|&frame| ids.get(frame as usize)));
            let (stack, truncated) = interner.intern_stack(&frames, self.max_depth);
            ThreadStack {
                thread_id: thread.thread_id,
                native_id: native_id(&thread),
                interpreter,
                owns_gil: thread.owns_gil,
                active: thread.active,
                stack,
                truncated,
                failed: false,
            }
        };
        stacks.threads.into_iter().map(&mut intern_thread).collect()
    }
}

impl StackReader for PySpyReader {
    fn interpreters(&mut self) -> Result<Vec<usize>, Failure> {
        if self.must_measure {
            self.measure()?;
        }
        Ok(vec![self.attached.interpreter as usize])
    }

    fn max_depth(&self) -> usize {
        self.max_depth
    }

    fn gil(&mut self, _: usize) -> Result<GilState, Failure> {
        // An unknown holder counts as a thread that cannot be identified.
        let unknown = GilState { holder: usize::MAX, ..GilState::default() };
        let Some(holder) = self.holder else { return Ok(unknown) };
        let mut gil = holder.read(&self.memory);
        if gil.is_none() {
            if let Some(living) = living_thread(self.pid).filter(|&living| living != self.memory.pid) {
                self.memory.pid = living;
                gil = holder.read(&self.memory);
            }
        }
        gil.ok_or_else(|| Failure::new("read", &"the GIL cannot be read"))
    }

    fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    fn read_and_verify(
        &mut self,
        interpreter: usize,
        _ran: &mut dyn FnMut(i32) -> bool,
        interner: &mut StackInterner,
        verify: &mut Verify<'_>,
    ) -> Result<Stacks, Failure> {
        if self.deadline.is_some_and(|deadline| Instant::now() + self.last_duration > deadline) {
            self.must_measure = true;
            return Err(slow(self.last_duration));
        }
        let gil = self.gil(interpreter)?;
        if !self.is_complete() {
            return Err(Failure::transient("read", &"a call was being entered"));
        }
        let stacks = self.read_stacks()?;
        let mut threads = stacks.threads.iter().map(|thread| (thread.thread_id, native_id(thread)));
        verify(MemoryReading { gil, threads: &mut threads, gil_now: &mut || self.gil(interpreter) })?;
        Ok(Stacks { threads: self.intern(stacks, interpreter, interner), gil })
    }

    fn take_cpu_ns(&mut self) -> u64 {
        self.process.take_cpu_ns()
    }
}

fn native_id(thread: &RawThread) -> Option<i32> {
    thread.native_id.and_then(|id| i32::try_from(id).ok())
}

fn slow(last_duration: Duration) -> Failure {
    let message = format!(
        "reading all threads takes {:.1} ms, longer than they may be stopped (max-stop-ms)",
        last_duration.as_secs_f64() * 1e3
    );
    Failure::new("slow", &message)
}

fn failure(message: &str) -> Failure {
    let failure = Failure::new("read", &message);
    if failure.is_out_of_descriptors() {
        return Failure { kind: DESCRIPTORS, ..failure };
    }
    let kind = match message {
        text if text.contains("recursion depth") => "depth",
        text if text.contains("copy") || text.contains("os error") => "read",
        _ => "other",
    };
    Failure::new(kind, &message)
}
