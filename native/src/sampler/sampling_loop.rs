//! What the sampling thread does: it serves whoever is due first.
//!
//! A process that was served too late is due again at once, behind all that have waited longer: processes whose
//! deadlines coincide share what time there is. A panic ends one session, never the others.

use crate::linux::cpu_affinity::Place;
use crate::linux::os::{become_sampling_thread, monotonic_ns, thread_cpu_ns};
use crate::linux::sched_priority::Priority;
use crate::linux::target::Presence;
use crate::ptrace::ptrace_stop::Stopper;
use crate::sampler::batch::Reading;
use crate::sampler::messages::{Desk, Message, Newcomer};
use crate::sampler::sample_once::Ticker;
use crate::sampler::schedule::Schedule;
use crate::sampler::shared_session::Watch;
use crate::stacks::stack_interner::Book;
use crate::stacks::stack_reader::Failure;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Whether it is the same process, and runs, is looked at this often; and after every tick that failed.
const PRESENT_NS: u64 = 50_000_000;
/// A process is looked at this often even if no tick is due: it may have exited.
const LOOK_NS: u64 = 1_000_000_000;
/// Threads that stopped too late are looked for this often: they stand still until they are let go.
const SETTLE_NS: u64 = 1_000_000;
/// After so many ticks in a row that panicked a session ends.
const MAX_PANICS: u32 = 3;

/// The whole life of the sampling thread.
pub fn run(desk: &Desk) {
    become_sampling_thread();
    let mut rounds = Rounds::of(desk);
    let ran = catch_unwind(AssertUnwindSafe(|| rounds.run()));
    // Whatever happened, nobody is left waiting for samples that will not come.
    let ended = ran.err().map(|panic| format!("failed: {}", panic_message(&*panic)));
    rounds.end_all(ended.as_deref());
}

/// What the thread keeps.
struct Rounds<'a> {
    desk: &'a Desk,
    watched: HashMap<u64, Watched>,
    /// When to look at whom; out of date where it differs from `Watched::wake_ns`.
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    /// Have threads to let go of that belong to no session any more.
    unsettled: Vec<Stopper>,
    cpu_ns: u64,
    priority: Priority,
    place: Place,
}

struct Watched {
    ticker: Ticker,
    watch: Arc<Watch>,
    schedule: Schedule,
    wake_ns: u64,
    /// Until then it is taken to be there.
    present_until_ns: u64,
    panics: u32,
}

impl Rounds<'_> {
    fn of(desk: &Desk) -> Rounds<'_> {
        Rounds {
            desk,
            watched: HashMap::new(),
            queue: BinaryHeap::new(),
            unsettled: Vec::new(),
            cpu_ns: 0,
            priority: Priority::ask(),
            place: Place::here(),
        }
    }

    fn run(&mut self) {
        loop {
            self.take_place();
            for message in self.desk.wait_until(self.next_ns()) {
                match message {
                    Message::Watch(newcomer) => self.watch(*newcomer),
                    Message::Period(id, period_ns, tell) => {
                        self.set_period(id, period_ns);
                        let _ = tell.send(());
                    }
                    Message::Stop(id) => self.end(id, None),
                    Message::Close => return,
                }
            }
            self.settle();
            self.serve_first();
            self.priority.review(monotonic_ns(), self.cpu_ns);
        }
    }

    /// Goes to where the process that is next was at work.
    fn take_place(&mut self) {
        let next = self.queue.peek().and_then(|Reverse((_, id))| self.watched.get(id));
        let cpu = next.and_then(|watched| watched.ticker.cpu);
        self.place.go(cpu.filter(|_| self.priority.goes_first()));
    }

    fn next_ns(&mut self) -> u64 {
        let settle_ns = match self.must_settle() {
            true => monotonic_ns() + SETTLE_NS,
            false => u64::MAX,
        };
        let due_ns = self.queue.peek().map_or(u64::MAX, |Reverse((wake_ns, _))| *wake_ns);
        due_ns.min(settle_ns)
    }

    fn must_settle(&self) -> bool {
        !self.unsettled.is_empty() || self.watched.values().any(|watched| watched.ticker.is_unsettled())
    }

    fn settle(&mut self) {
        self.unsettled.retain_mut(|stopper| !stopper.settle());
        for watched in self.watched.values_mut() {
            watched.ticker.settle();
        }
    }

    fn watch(&mut self, newcomer: Newcomer) {
        let Newcomer { id, mut ticker, plan, attach_cpu_ns, tell } = newcomer;
        // For the batch before, the batch that is open, and what is kept one by one.
        let mut book = Book::new(plan.max_stacks.saturating_mul(2).saturating_add(plan.timed));
        let proof = guarded(|| ticker.prove(&mut book));
        ticker.take_stops();
        let sampler_cpu_ns = attach_cpu_ns + self.spent_ns();
        if let Err((failure, _)) = proof {
            self.let_go(ticker);
            return drop(tell.send(Err(failure)));
        }
        let target_cpu_ns = ticker.target.cpu_ns().unwrap_or(0);
        let cpu = Reading { target_cpu_ns, sampler_cpu_ns, ..Reading::default() };
        let target = Arc::clone(&ticker.target);
        let watch = Arc::new(Watch::begin(target, book, plan.max_stacks, plan.timed, cpu));
        if tell.send(Ok(Arc::clone(&watch))).is_err() {
            return self.let_go(ticker);
        }
        let schedule = Schedule::new(plan.period_ns, monotonic_ns(), fastrand::f64());
        let watched = Watched { ticker, watch, schedule, wake_ns: 0, present_until_ns: 0, panics: 0 };
        self.watched.insert(id, watched);
        self.queue(id);
    }

    fn set_period(&mut self, id: u64, period_ns: Option<u64>) {
        if let Some(watched) = self.watched.get_mut(&id) {
            watched.schedule.set_period(period_ns, monotonic_ns(), fastrand::f64());
            self.queue(id);
        }
    }

    fn queue(&mut self, id: u64) {
        if let Some(watched) = self.watched.get_mut(&id) {
            watched.wake_ns = watched.schedule.deadline_ns().min(monotonic_ns() + LOOK_NS);
            self.queue.push(Reverse((watched.wake_ns, id)));
        }
    }

    /// Serves whoever has waited longest, if anybody is due.
    fn serve_first(&mut self) {
        let Some(&Reverse((wake_ns, id))) = self.queue.peek() else { return };
        if wake_ns > monotonic_ns() {
            return;
        }
        self.queue.pop();
        let Some(watched) = self.watched.get_mut(&id).filter(|watched| watched.wake_ns == wake_ns) else {
            return;
        };
        let served = catch_unwind(AssertUnwindSafe(|| watched.serve()));
        let ended = served.unwrap_or_else(|panic| Some(format!("failed: {}", panic_message(&*panic))));
        let spent_ns = self.spent_ns();
        if let Some(watched) = self.watched.get_mut(&id) {
            watched.watch.lock().used(spent_ns);
        }
        match ended {
            Some(_) => self.end(id, ended.as_deref()),
            None => self.queue(id),
        }
    }

    /// CPU time since this was asked last.
    fn spent_ns(&mut self) -> u64 {
        let before_ns = std::mem::replace(&mut self.cpu_ns, thread_cpu_ns());
        self.desk.cpu_ns.store(self.cpu_ns, Ordering::Relaxed);
        self.cpu_ns - before_ns
    }

    fn end(&mut self, id: u64, ended: Option<&str>) {
        if let Some(Watched { ticker, watch, .. }) = self.watched.remove(&id) {
            self.let_go(ticker);
            watch.finish(ended.map(str::to_owned));
        }
    }

    fn end_all(&mut self, ended: Option<&str>) {
        for id in self.watched.keys().copied().collect::<Vec<_>>() {
            self.end(id, ended);
        }
    }

    fn let_go(&mut self, ticker: Ticker) {
        let mut stopper = ticker.into_stopper();
        if !stopper.settle() {
            self.unsettled.push(stopper);
        }
    }
}

impl Watched {
    /// A tick, if one is due; why sampling has ended, if it has.
    fn serve(&mut self) -> Option<String> {
        let began_ns = monotonic_ns();
        let due = self.schedule.deadline_ns() <= began_ns;
        let mut presence = Presence::Running;
        if !due || began_ns >= self.present_until_ns {
            presence = self.ticker.target.presence();
            self.present_until_ns = began_ns + PRESENT_NS;
        }
        match presence {
            Presence::Exited => return Some("exited".into()),
            Presence::Replaced => return Some("exec".into()),
            _ if !due => return None,
            _ => {}
        }
        let mut inner = self.watch.lock();
        let outcome = match presence {
            Presence::Stopped => Err((Failure::new("stopped", &"it stands in state T"), false)),
            Presence::Leaving => Err((Failure::new("leaving", &"it has no memory"), false)),
            _ => guarded(|| self.ticker.tick(&mut inner.book)),
        };
        if outcome.is_err() {
            self.present_until_ns = 0;
        }
        let now_ns = monotonic_ns();
        let stops = self.ticker.take_stops();
        let late_ns = self.schedule.advance(now_ns, stops.stopped_ns, fastrand::f64());
        if late_ns > 0 {
            // Others may go first there.
            self.ticker.cpu = None;
        }
        let ended = match &outcome {
            Err((failure, true)) => {
                self.panics += 1;
                (self.panics >= MAX_PANICS).then(|| format!("failed: {}", failure.message))
            }
            _ => {
                self.panics = 0;
                None
            }
        };
        inner.count(
            outcome.as_ref().map(|_| self.ticker.samples()).map_err(|(failure, _)| failure),
            stops,
            late_ns,
        );
        ended
    }
}

/// One tick. A failure comes with whether it was a panic.
fn guarded(tick: impl FnOnce() -> Result<(), Failure>) -> Result<(), (Failure, bool)> {
    match catch_unwind(AssertUnwindSafe(tick)) {
        Ok(ticked) => ticked.map_err(|failure| (failure, false)),
        Err(panic) => Err((Failure::new("panic", &panic_message(&*panic)), true)),
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".into())
}
