//! The loop of the sampling thread: it samples the process with the earliest deadline.
//!
//! A process that was sampled too late is due again at once, behind all that have waited longer: processes whose
//! deadlines coincide share the thread. A panic ends one session, never the others.

use crate::linux::cpu_affinity::CpuAffinity;
use crate::linux::os::{become_sampling_thread, monotonic_ns, thread_cpu_ns};
use crate::linux::sched_priority::{self, SchedPriority, TemporaryPriority};
use crate::linux::target::Presence;
use crate::ptrace::ptrace_stop::Stopper;
use crate::reader_process::client::EXCEEDED;
use crate::sampler::batch::ClockReading;
use crate::sampler::messages::{Mailbox, Message, NewSession};
use crate::sampler::sample_once::ProcessSampler;
use crate::sampler::schedule::Schedule;
use crate::sampler::shared_session::SharedSession;
use crate::stacks::stack_interner::StackInterner;
use crate::stacks::stack_reader::{Failure, DESCRIPTORS};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// How often the presence of a process is checked; also after every failed tick.
const PRESENCE_CHECK_NS: u64 = 50_000_000;
/// How often a process without a due tick is checked: it may have exited.
const EXIT_CHECK_NS: u64 = 1_000_000_000;
/// How often pending stops are polled: those threads stay stopped until they are detached.
const PENDING_STOP_POLL_NS: u64 = 1_000_000;
/// After so many ticks in a row that panicked a session ends.
const MAX_PANICS: u32 = 3;

/// The whole life of the sampling thread.
pub fn run(mailbox: &Mailbox) {
    become_sampling_thread();
    let mut sampling_loop = SamplingLoop::new(mailbox);
    let ran = catch_unwind(AssertUnwindSafe(|| sampling_loop.run()));
    // Whatever happened, no session is left waiting for samples.
    let ended = ran.err().map(|panic| format!("failed: {}", panic_message(&*panic)));
    sampling_loop.end_all(ended.as_deref());
}

/// The state of the thread.
struct SamplingLoop<'a> {
    mailbox: &'a Mailbox,
    processes: HashMap<u64, SampledProcess>,
    /// (time, session) of each next check; out of date where the time differs from `SampledProcess::wake_ns`.
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    /// Stoppers of ended sessions that still have threads to detach.
    pending_stops: Vec<Stopper>,
    cpu_ns: u64,
    awake_since_ns: u64,
    priority: SchedPriority,
    /// While a thread may stop that missed its stop: it stands still until this thread has a CPU.
    pending_priority: Option<TemporaryPriority>,
    affinity: CpuAffinity,
}

struct SampledProcess {
    sampler: ProcessSampler,
    session: Arc<SharedSession>,
    schedule: Schedule,
    tasks_period_ns: Option<u64>,
    tasks_due_ns: u64,
    wake_ns: u64,
    /// Until then its presence is not checked again.
    presence_valid_until_ns: u64,
    panics: u32,
}

impl SamplingLoop<'_> {
    fn new(mailbox: &Mailbox) -> SamplingLoop<'_> {
        SamplingLoop {
            mailbox,
            processes: HashMap::new(),
            queue: BinaryHeap::new(),
            pending_stops: Vec::new(),
            cpu_ns: 0,
            awake_since_ns: 0,
            priority: SchedPriority::request(),
            pending_priority: None,
            affinity: CpuAffinity::of_this_thread(),
        }
    }

    fn run(&mut self) {
        loop {
            self.raise_for_pending_stops();
            self.move_to_target_cpu();
            let next_ns = self.next_ns();
            let sleeps = next_ns > monotonic_ns();
            let messages = self.mailbox.wait_until(next_ns);
            if sleeps {
                self.awake_since_ns = monotonic_ns();
            }
            for message in messages {
                match message {
                    Message::Start(session) => self.start(*session),
                    Message::SetPeriod(id, period_ns, reply) => {
                        self.set_period(id, period_ns);
                        let _ = reply.send(());
                    }
                    Message::Stop(id) => self.end(id, None),
                    Message::Close => return,
                }
            }
            self.release_pending();
            self.sample_earliest();
            if self.pending_priority.is_none() {
                self.priority.review(monotonic_ns(), self.cpu_ns);
            }
        }
    }

    fn raise_for_pending_stops(&mut self) {
        let may_stop = self.pending_stops.iter().any(Stopper::has_runnable_pending_stops)
            || self.processes.values().any(|process| process.sampler.has_runnable_pending_stops());
        match may_stop {
            true if self.pending_priority.is_none() => self.pending_priority = sched_priority::raise(),
            true => {}
            false => self.pending_priority = None,
        }
    }

    /// Moves to the CPU on which the next process last worked.
    fn move_to_target_cpu(&mut self) {
        let next = self.queue.peek().and_then(|Reverse((_, id))| self.processes.get(id));
        let cpu = next.and_then(|process| process.sampler.cpu);
        self.affinity.pin(cpu.filter(|_| self.priority.is_real_time()));
    }

    fn next_ns(&mut self) -> u64 {
        let pending_ns = match self.has_pending_stops() {
            true => monotonic_ns() + PENDING_STOP_POLL_NS,
            false => u64::MAX,
        };
        let due_ns = self.queue.peek().map_or(u64::MAX, |Reverse((wake_ns, _))| *wake_ns);
        due_ns.min(pending_ns)
    }

    fn has_pending_stops(&self) -> bool {
        !self.pending_stops.is_empty()
            || self.processes.values().any(|process| process.sampler.has_pending_stops())
    }

    fn release_pending(&mut self) {
        self.pending_stops.retain_mut(|stopper| !stopper.release_pending());
        for process in self.processes.values_mut() {
            process.sampler.release_pending();
        }
    }

    fn start(&mut self, session: NewSession) {
        let NewSession { id, mut sampler, options, attach_cpu_ns, reply } = session;
        // Room for the last batch, the open batch and the timed samples.
        let mut interner =
            StackInterner::new(options.max_stacks.saturating_mul(2).saturating_add(options.timed));
        let readable = guarded(|| sampler.check_readable(&mut interner));
        sampler.take_stops();
        let reader_cpu_ns = sampler.take_cpu_ns();
        let sampler_cpu_ns = attach_cpu_ns + self.spent_ns(reader_cpu_ns);
        if let Err((failure, _)) = readable {
            self.detach(sampler);
            return drop(reply.send(Err(failure)));
        }
        let target_cpu_ns = sampler.target.cpu_ns().unwrap_or(0);
        let cpu = ClockReading { target_cpu_ns, sampler_cpu_ns, ..ClockReading::default() };
        let target = Arc::clone(&sampler.target);
        let session = Arc::new(SharedSession::new(target, interner, options.max_stacks, options.timed, cpu));
        if reply.send(Ok(Arc::clone(&session))).is_err() {
            return self.detach(sampler);
        }
        let schedule = Schedule::new(options.period_ns, monotonic_ns(), fastrand::f64());
        let process = SampledProcess {
            sampler,
            session,
            schedule,
            tasks_period_ns: options.tasks_period_ns,
            tasks_due_ns: 0,
            wake_ns: 0,
            presence_valid_until_ns: 0,
            panics: 0,
        };
        self.processes.insert(id, process);
        self.enqueue(id);
    }

    fn set_period(&mut self, id: u64, period_ns: Option<u64>) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.schedule.set_period(period_ns, monotonic_ns(), fastrand::f64());
            self.enqueue(id);
        }
    }

    fn enqueue(&mut self, id: u64) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.wake_ns = process.schedule.deadline_ns().min(monotonic_ns() + EXIT_CHECK_NS);
            self.queue.push(Reverse((process.wake_ns, id)));
        }
    }

    /// Samples the process with the earliest deadline, if it is due.
    fn sample_earliest(&mut self) {
        let Some(&Reverse((wake_ns, id))) = self.queue.peek() else { return };
        if wake_ns > monotonic_ns() {
            return;
        }
        self.queue.pop();
        let Some(process) = self.processes.get_mut(&id).filter(|process| process.wake_ns == wake_ns) else {
            return;
        };
        process.sampler.set_stay_since(self.awake_since_ns);
        let outcome = catch_unwind(AssertUnwindSafe(|| process.sample_if_due()));
        let ended = outcome.unwrap_or_else(|panic| Some(format!("failed: {}", panic_message(&*panic))));
        let reader_cpu_ns = process.sampler.take_cpu_ns();
        let spent_ns = self.spent_ns(reader_cpu_ns);
        if let Some(process) = self.processes.get_mut(&id) {
            process.session.lock().add_cpu(spent_ns);
        }
        match ended {
            Some(_) => self.end(id, ended.as_deref()),
            None => self.enqueue(id),
        }
    }

    /// CPU time since this was asked last, with what reader processes used meanwhile.
    fn spent_ns(&mut self, reader_cpu_ns: u64) -> u64 {
        let before_ns = std::mem::replace(&mut self.cpu_ns, thread_cpu_ns());
        let spent_ns = self.cpu_ns - before_ns + reader_cpu_ns;
        self.mailbox.cpu_ns.fetch_add(spent_ns, Ordering::Relaxed);
        spent_ns
    }

    fn end(&mut self, id: u64, ended: Option<&str>) {
        if let Some(SampledProcess { sampler, session, .. }) = self.processes.remove(&id) {
            self.detach(sampler);
            session.finish(ended.map(str::to_owned));
        }
    }

    fn end_all(&mut self, ended: Option<&str>) {
        for id in self.processes.keys().copied().collect::<Vec<_>>() {
            self.end(id, ended);
        }
    }

    fn detach(&mut self, sampler: ProcessSampler) {
        let mut stopper = sampler.into_stopper();
        if !stopper.release_pending() {
            self.pending_stops.push(stopper);
        }
    }
}

impl SampledProcess {
    /// Samples the process if a tick is due. Returns the reason why sampling has ended, if it has.
    fn sample_if_due(&mut self) -> Option<String> {
        let began_ns = monotonic_ns();
        let due = self.schedule.deadline_ns() <= began_ns;
        let mut presence = Presence::Running;
        if !due || began_ns >= self.presence_valid_until_ns {
            presence = self.sampler.target.presence();
            self.presence_valid_until_ns = began_ns + PRESENCE_CHECK_NS;
        }
        match presence {
            Presence::Exited => return Some("exited".into()),
            Presence::Replaced => return Some("exec".into()),
            _ if !due => return None,
            _ => {}
        }
        let mut state = self.session.lock();
        let outcome = match presence {
            Presence::Stopped => Err((Failure::new("stopped", &"it stands in state T"), false)),
            Presence::Leaving => Err((Failure::new("leaving", &"it has no memory"), false)),
            Presence::Unknown => Err((Failure::new(DESCRIPTORS, &"no file can be opened"), false)),
            _ => guarded(|| self.sampler.sample_once(&mut state.interner)),
        };
        if outcome.is_err() {
            self.presence_valid_until_ns = 0;
        }
        let mut stops = self.sampler.take_stops();
        if let Some(period_ns) =
            self.tasks_period_ns.filter(|_| outcome.is_ok() && self.tasks_due_ns <= began_ns)
        {
            let interval_ns = (period_ns as f64 * (0.5 + fastrand::f64())) as u64;
            self.tasks_due_ns = match self.tasks_due_ns + interval_ns {
                due_ns if due_ns > began_ns => due_ns,
                _ => began_ns + interval_ns,
            };
            let tasks = guarded(|| self.sampler.read_tasks(&mut state.interner).transpose());
            stops.add(self.sampler.take_stops());
            state.count_tasks(tasks.as_ref().map(Option::as_ref).map_err(|(failure, _)| failure));
        }
        let now_ns = monotonic_ns();
        let late_ns = self.schedule.advance(now_ns, stops.stopped_ns, fastrand::f64());
        if late_ns > 0 {
            // Others may go first there.
            self.sampler.cpu = None;
        }
        let ended = match &outcome {
            Err((failure, _)) if failure.kind == EXCEEDED => Some(format!("failed: {}", failure.message)),
            Err((failure, true)) => {
                self.panics += 1;
                (self.panics >= MAX_PANICS).then(|| format!("failed: {}", failure.message))
            }
            _ => {
                self.panics = 0;
                None
            }
        };
        state.count(
            outcome.as_ref().map(|_| self.sampler.samples()).map_err(|(failure, _)| failure),
            stops,
            late_ns,
        );
        ended
    }
}

/// Calls what may panic. A failure comes with whether it was a panic.
pub fn guarded<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, (Failure, bool)> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|failure| (failure, false)),
        Err(panic) => Err((Failure::new("panic", &panic_message(&*panic)), true)),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".into())
}
