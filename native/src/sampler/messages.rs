//! The messages to the sampling thread, and the types of a request to sample a process.

use crate::linux::os::monotonic_ns;
use crate::ptrace::ptrace_stop::StopLimits;
use crate::sampler::sample_once::{Mode, ProcessSampler};
use crate::sampler::shared_session::SharedSession;
use crate::stacks::stack_reader::Failure;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How to sample a process.
#[derive(Clone, Copy, Debug)]
pub struct SamplingOptions {
    /// None: paused.
    pub period_ns: Option<u64>,
    /// None: the best mode that this Python supports.
    pub mode: Option<Mode>,
    /// None: the CPython reader if it supports this Python, else the py-spy reader.
    pub reader: Option<ReaderKind>,
    /// Frames per stack, at least 1.
    pub max_depth: usize,
    /// Maximum of distinct stacks in one batch, at least 1.
    pub max_stacks: usize,
    pub limits: StopLimits,
    /// Whether the counts distinguish threads by name, and whether the timed samples do.
    pub names: bool,
    pub timed_names: bool,
    /// Maximum of timed samples.
    pub timed: usize,
    /// None: tasks are not read.
    pub tasks_period_ns: Option<u64>,
    /// More tasks than this are read in part; at least 1.
    pub max_tasks: usize,
}

/// Which reader reads the stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderKind {
    Cpython,
    PySpy,
}

/// Why attaching failed; each message names the pid.
#[derive(Debug)]
pub enum AttachError {
    Gone(String),
    Denied(String),
    Unsupported(String),
    /// Reading takes longer than threads may be stopped.
    Slow(String),
    /// A reader process took more time or memory than it may.
    Exceeded(String),
    /// This process is out of file descriptors.
    Descriptors(String),
    /// The engine was closed, or does not answer.
    Engine(String),
}

/// The mailbox of the sampling thread.
#[derive(Debug, Default)]
pub struct Mailbox {
    messages: Mutex<Vec<Message>>,
    arrived: Condvar,
    /// CPU time of the thread so far.
    pub cpu_ns: AtomicU64,
    /// The thread has ended.
    closed: AtomicBool,
}

#[derive(Debug)]
pub enum Message {
    Start(Box<NewSession>),
    SetPeriod(u64, Option<u64>, mpsc::SyncSender<()>),
    Stop(u64),
    Close,
}

/// A process to be sampled from now on.
pub struct NewSession {
    pub id: u64,
    pub sampler: ProcessSampler,
    pub options: SamplingOptions,
    pub attach_cpu_ns: u64,
    /// Gets the result of a first reading, which is not counted.
    pub reply: mpsc::SyncSender<Result<Arc<SharedSession>, Failure>>,
}

impl Mailbox {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn send(&self, message: Message) {
        let mut messages = self.lock();
        if !self.closed.load(Ordering::Acquire) {
            messages.push(message);
            self.arrived.notify_one();
        }
    }

    /// The thread has ended. Drops unread messages, which tells their senders.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.lock().clear();
    }

    /// Waits for messages until a time on the monotonic clock.
    pub fn wait_until(&self, deadline_ns: u64) -> Vec<Message> {
        let pause = Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns()));
        let mut messages = self.lock();
        if messages.is_empty() && !pause.is_zero() {
            let waited = self.arrived.wait_timeout_while(messages, pause, |messages| messages.is_empty());
            messages = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut messages)
    }
}

impl std::fmt::Debug for NewSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewSession")
            .field("id", &self.id)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
