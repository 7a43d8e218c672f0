//! What callers and the sampling thread tell each other.

use crate::linux::os::monotonic_ns;
use crate::ptrace::ptrace_stop::Limits;
use crate::sampler::sample_once::{Mode, Ticker};
use crate::sampler::shared_session::Watch;
use crate::stacks::stack_reader::Failure;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How a process shall be sampled.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// None: paused.
    pub period_ns: Option<u64>,
    /// None: without harm and true, as far as this Python lets itself be sampled so.
    pub mode: Option<Mode>,
    /// None: the own one, as far as it knows this Python.
    pub reader: Option<By>,
    /// Frames per stack, at least 1.
    pub max_depth: usize,
    /// Stacks told apart in one batch, at least 1.
    pub max_stacks: usize,
    pub limits: Limits,
    /// Whether threads are told apart by their names in what is counted, and in what is kept one by one.
    pub names: bool,
    pub timed_names: bool,
    /// Samples kept one by one.
    pub timed: usize,
}

/// What reads the stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Own,
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
    /// The engine was closed, or does not answer.
    Engine(String),
}

/// Where messages for the thread lie.
#[derive(Debug, Default)]
pub struct Desk {
    inbox: Mutex<Vec<Message>>,
    rang: Condvar,
    /// CPU time of the thread so far.
    pub cpu_ns: AtomicU64,
    /// The thread has ended.
    over: AtomicBool,
}

#[derive(Debug)]
pub enum Message {
    Watch(Box<Newcomer>),
    Period(u64, Option<u64>, mpsc::SyncSender<()>),
    Stop(u64),
    Close,
}

/// A process to be sampled from now on.
pub struct Newcomer {
    pub id: u64,
    pub ticker: Ticker,
    pub plan: Plan,
    pub attach_cpu_ns: u64,
    /// Told how a first reading went, which is not counted.
    pub tell: mpsc::SyncSender<Result<Arc<Watch>, Failure>>,
}

impl Desk {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Message>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn send(&self, message: Message) {
        let mut inbox = self.lock();
        if !self.over.load(Ordering::Acquire) {
            inbox.push(message);
            self.rang.notify_one();
        }
    }

    /// The thread has ended: nobody reads messages any more. Those who sent one learn it from this.
    pub fn close(&self) {
        self.over.store(true, Ordering::Release);
        self.lock().clear();
    }

    /// Waits until there are messages or a moment on the monotonic clock has come.
    pub fn wait_until(&self, deadline_ns: u64) -> Vec<Message> {
        let pause = Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns()));
        let mut inbox = self.lock();
        if inbox.is_empty() && !pause.is_zero() {
            let waited = self.rang.wait_timeout_while(inbox, pause, |inbox| inbox.is_empty());
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut inbox)
    }
}

impl std::fmt::Debug for Newcomer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Newcomer").field("id", &self.id).field("plan", &self.plan).finish_non_exhaustive()
    }
}
