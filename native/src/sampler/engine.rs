//! One thread that samples any number of processes, and the handle to it.
//!
//! ptrace ties the stopped to the OS thread that stopped them, so all sampling and letting go happens in one
//! thread (`rounds`). Others send it messages.

use crate::sampler::messages::{AttachError, Desk, Message, Newcomer, Plan};
use crate::sampler::sample_once::Ticker;
use crate::sampler::sampling_loop;
use crate::sampler::shared_session::Watch;
use crate::stacks::stack_reader::Failure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;
use std::{io, thread};

/// The longest that the thread is waited for. A tick takes at most tens of milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The sampling thread. It ends when this is closed or dropped.
#[derive(Debug)]
pub struct Engine {
    desk: Arc<Desk>,
    next_id: AtomicU64,
}

impl Engine {
    pub fn start() -> io::Result<Engine> {
        let desk = Arc::new(Desk::default());
        let theirs = Arc::clone(&desk);
        let body = move || {
            sampling_loop::run(&theirs);
            theirs.close();
        };
        thread::Builder::new().name("sidelight-sampler".into()).spawn(body)?;
        Ok(Engine { desk, next_id: AtomicU64::new(0) })
    }

    /// Hands a process over. The inner failure is that of a first reading, which is not counted.
    #[allow(clippy::type_complexity)]
    pub fn watch(
        &self,
        ticker: Ticker,
        plan: &Plan,
        attach_cpu_ns: u64,
    ) -> Result<Result<(u64, Arc<Watch>), Failure>, AttachError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = mpsc::sync_channel(1);
        self.desk.send(Message::Watch(Box::new(Newcomer { id, ticker, plan: *plan, attach_cpu_ns, tell })));
        let answer = told.recv_timeout(PATIENCE).map_err(|error| {
            AttachError::Engine(match error {
                mpsc::RecvTimeoutError::Timeout => "the sampling thread does not answer".into(),
                mpsc::RecvTimeoutError::Disconnected => "the engine is closed".into(),
            })
        })?;
        Ok(answer.map(|watch| (id, watch)))
    }

    /// None pauses. Waits until it is so: a process that is paused does not stand still.
    pub fn set_period(&self, id: u64, period_ns: Option<u64>) {
        let (tell, told) = mpsc::sync_channel(1);
        self.desk.send(Message::Period(id, period_ns, tell));
        // An engine that is closed samples nothing.
        let _ = told.recv_timeout(PATIENCE);
    }

    /// Tells the thread to let go of a process, without waiting for it.
    pub fn end(&self, id: u64) {
        self.desk.send(Message::Stop(id));
    }

    /// Lets go of a process and waits until that is done.
    pub fn stop(&self, id: u64, watch: &Watch) {
        self.end(id);
        watch.wait_until_done(PATIENCE);
    }

    /// Ends every session and the thread. Does not wait for it.
    pub fn close(&self) {
        self.desk.send(Message::Close);
    }

    /// CPU time of the thread so far.
    pub fn cpu_ns(&self) -> u64 {
        self.desk.cpu_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::target::Target;
    use crate::ptrace::ptrace_stop::Limits;
    use crate::sampler::sample_once::Mode;
    use crate::stacks::frame_text::Call;
    use crate::stacks::stack_interner::Book;
    use crate::stacks::stack_reader::{Gil, StackReader, Stacks, ThreadStack};
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    /// Reads one made-up thread.
    struct MadeUp {
        readings: u64,
        /// At this reading and all later ones.
        panics_at: u64,
        takes: Duration,
    }

    impl StackReader for MadeUp {
        fn interpreters(&mut self) -> Result<Vec<usize>, Failure> {
            Ok(vec![1])
        }

        fn max_depth(&self) -> usize {
            9
        }

        fn gil(&mut self, _: usize) -> Result<Gil, Failure> {
            Ok(Gil::default())
        }

        fn read(
            &mut self,
            interpreter: usize,
            _: &mut dyn FnMut(i32) -> bool,
            book: &mut Book,
        ) -> Result<Stacks, Failure> {
            self.readings += 1;
            assert!(self.readings < self.panics_at, "as it was told to");
            thread::sleep(self.takes);
            let line = self.readings as i32;
            let frame = book.frame(&Call { function: "f", file: "f.py", line });
            let thread = ThreadStack {
                thread_id: 7,
                native_id: None,
                interpreter,
                owns_gil: false,
                active: true,
                stack: book.stack(&[frame], 9).0,
                truncated: false,
                failed: false,
            };
            Ok(Stacks { threads: vec![thread], gil: Gil::default() })
        }
    }

    const RELIABLE: u64 = u64::MAX;
    const MAX_STACKS: usize = 10;

    /// A process that waits, and has begun to.
    fn asleep() -> Child {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    fn watch(
        engine: &Engine,
        child: &Child,
        panics_at: u64,
        takes: Duration,
    ) -> Result<(u64, Arc<Watch>), Failure> {
        let reader = Box::new(MadeUp { readings: 0, panics_at, takes });
        let target = Arc::new(Target::open(child.id() as i32).unwrap());
        let mode = Mode::Nonblocking;
        let ticker = Ticker::new(target, mode, reader, Limits::default(), None).unwrap();
        let plan = Plan {
            period_ns: Some(1_000_000),
            mode: Some(mode),
            reader: None,
            max_depth: 9,
            max_stacks: MAX_STACKS,
            limits: Limits::default(),
            names: false,
            timed_names: false,
            timed: 0,
        };
        engine.watch(ticker, &plan, 0).unwrap()
    }

    fn until(condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !condition() {
            assert!(Instant::now() < deadline);
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_session_whose_reader_panics_ends_and_the_others_go_on() {
        let (child, engine) = (asleep(), Engine::start().unwrap());
        let (_, good) = watch(&engine, &child, RELIABLE, Duration::ZERO).unwrap();
        let (_, bad) = watch(&engine, &child, 5, Duration::ZERO).unwrap();
        until(|| bad.ended().is_some());
        assert_eq!(bad.ended().unwrap(), "failed: as it was told to");
        let batch = bad.take();
        assert_eq!((batch.samples, batch.sums.errors["panic"]), (3, 3));
        assert_eq!(watch(&engine, &child, 1, Duration::ZERO).unwrap_err().kind, "panic");
        good.take();
        until(|| good.take().samples > 0);
        assert_eq!(good.ended(), None);
        end(child);
    }

    #[test]
    fn processes_that_are_all_late_share_the_thread() {
        let (child, engine) = (asleep(), Engine::start().unwrap());
        let takes = Duration::from_millis(3);
        let sessions: Vec<_> = (0..5).map(|_| watch(&engine, &child, RELIABLE, takes).unwrap().1).collect();
        sessions.iter().for_each(|watch| drop(watch.take()));
        until(|| sessions[0].lock().attempts() >= 40);
        let batches: Vec<_> = sessions.iter().map(|watch| watch.take()).collect();
        for batch in &batches {
            assert!((30..60).contains(&batch.sums.attempts), "{batches:?}");
            assert!(batch.sums.late_ns > 0);
            assert!(batch.sampler_cpu_ns > 0);
        }
        end(child);
    }

    #[test]
    fn a_pause_lasts_until_a_rate_is_set_and_an_exit_is_noticed_meanwhile() {
        let (child, engine) = (asleep(), Engine::start().unwrap());
        let (id, watch) = watch(&engine, &child, RELIABLE, Duration::ZERO).unwrap();
        engine.set_period(id, None);
        watch.take();
        thread::sleep(Duration::from_millis(20));
        assert_eq!(watch.take().sums.attempts, 0);
        engine.set_period(id, Some(1_000_000));
        until(|| watch.take().sums.attempts > 0);
        engine.set_period(id, None);
        end(child);
        until(|| watch.ended().is_some());
        assert_eq!(watch.ended().unwrap(), "exited");
    }

    #[test]
    fn ever_new_stacks_are_counted_as_other_and_do_not_fill_the_memory() {
        let (child, engine) = (asleep(), Engine::start().unwrap());
        let (id, watch) = watch(&engine, &child, RELIABLE, Duration::ZERO).unwrap();
        for _ in 0..3 {
            until(|| watch.lock().attempts() >= 5 * MAX_STACKS as u64);
            let batch = watch.take();
            assert_eq!(batch.rows().len(), MAX_STACKS + 1);
            assert_eq!(batch.other, batch.samples - MAX_STACKS as u64);
            assert!(watch.lock().book.stack_count() <= 2 * MAX_STACKS + 2);
        }
        engine.stop(id, &watch);
        assert_eq!(watch.ended(), None);
        end(child);
    }

    #[test]
    fn a_closed_engine_ends_its_sessions_and_takes_no_more() {
        let (child, engine) = (asleep(), Engine::start().unwrap());
        let (id, watch) = watch(&engine, &child, RELIABLE, Duration::ZERO).unwrap();
        engine.close();
        watch.wait_until_done(PATIENCE);
        assert_eq!(watch.ended(), None);
        engine.set_period(id, None);
        engine.stop(id, &watch);
        watch.take();
        assert_eq!(watch.take().duration_ns, 0);
        end(child);
    }
}
