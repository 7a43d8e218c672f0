//! The handle to the one thread that samples any number of processes.
//!
//! ptrace ties a stopped thread to the OS thread that stopped it, so all sampling and detaching happens in one
//! thread (`sampling_loop`). Other threads send it `messages`.

use crate::reader_process::client::ReaderProcesses;
use crate::sampler::messages::{AttachError, Mailbox, Message, NewSession, SamplingOptions};
use crate::sampler::sample_once::ProcessSampler;
use crate::sampler::sampling_loop;
use crate::sampler::shared_session::SharedSession;
use crate::stacks::stack_reader::Failure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;
use std::{io, thread};

/// How long a caller waits for the thread. A tick takes at most tens of milliseconds.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The sampling thread. It ends when this is closed or dropped.
#[derive(Debug)]
pub struct Engine {
    pub reader_processes: ReaderProcesses,
    mailbox: Arc<Mailbox>,
    next_id: AtomicU64,
}

impl Engine {
    /// `reader_command` starts the parent of reader processes.
    pub fn start(reader_command: Vec<String>) -> io::Result<Engine> {
        let mailbox = Arc::new(Mailbox::default());
        let thread_mailbox = Arc::clone(&mailbox);
        let body = move || {
            sampling_loop::run(&thread_mailbox);
            thread_mailbox.close();
        };
        thread::Builder::new().name("sidelight-sampler".into()).spawn(body)?;
        let reader_processes = ReaderProcesses::new(reader_command);
        Ok(Engine { reader_processes, mailbox, next_id: AtomicU64::new(0) })
    }

    /// Starts to sample a process. The inner failure is that of a first reading, which is not counted.
    #[allow(clippy::type_complexity)]
    pub fn start_session(
        &self,
        sampler: ProcessSampler,
        options: &SamplingOptions,
        attach_cpu_ns: u64,
    ) -> Result<Result<(u64, Arc<SharedSession>), Failure>, AttachError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = mpsc::sync_channel(1);
        self.mailbox.send(Message::Start(Box::new(NewSession {
            id,
            sampler,
            options: *options,
            attach_cpu_ns,
            reply,
        })));
        let answer = answer.recv_timeout(REPLY_TIMEOUT).map_err(|error| {
            AttachError::Engine(match error {
                mpsc::RecvTimeoutError::Timeout => "the sampling thread does not answer".into(),
                mpsc::RecvTimeoutError::Disconnected => "the engine is closed".into(),
            })
        })?;
        Ok(answer.map(|session| (id, session)))
    }

    /// None pauses. Waits until the thread has applied it: a paused process is never stopped.
    pub fn set_period(&self, id: u64, period_ns: Option<u64>) {
        let (reply, answer) = mpsc::sync_channel(1);
        self.mailbox.send(Message::SetPeriod(id, period_ns, reply));
        // An engine that is closed samples nothing.
        let _ = answer.recv_timeout(REPLY_TIMEOUT);
    }

    /// Tells the thread to detach a process, without waiting for it.
    pub fn end(&self, id: u64) {
        self.mailbox.send(Message::Stop(id));
    }

    /// Detaches a process and waits until that is done.
    pub fn stop(&self, id: u64, session: &SharedSession) {
        self.end(id);
        session.wait_until_detached(REPLY_TIMEOUT);
    }

    /// Ends every session and the thread. Does not wait for it.
    pub fn close(&self) {
        self.mailbox.send(Message::Close);
    }

    /// CPU time of the thread so far.
    pub fn cpu_ns(&self) -> u64 {
        self.mailbox.cpu_ns.load(Ordering::Relaxed)
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
    use crate::ptrace::ptrace_stop::StopLimits;
    use crate::sampler::sample_once::Mode;
    use crate::stacks::frame_text::Call;
    use crate::stacks::stack_interner::StackInterner;
    use crate::stacks::stack_reader::{GilState, MemoryReading, StackReader, Stacks, ThreadStack, Verify};
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

        fn gil(&mut self, _: usize) -> Result<GilState, Failure> {
            Ok(GilState::default())
        }

        fn read_and_verify(
            &mut self,
            interpreter: usize,
            _: &mut dyn FnMut(i32) -> bool,
            interner: &mut StackInterner,
            verify: &mut Verify<'_>,
        ) -> Result<Stacks, Failure> {
            self.readings += 1;
            assert!(self.readings < self.panics_at, "a scripted panic");
            thread::sleep(self.takes);
            let (gil, mut threads) = (GilState::default(), [(7, None)].into_iter());
            verify(MemoryReading { gil, threads: &mut threads, gil_now: &mut || Ok(gil) })?;
            let line = self.readings as i32;
            let frame = interner.intern_frame(&Call { function: "f", file: "f.py", line });
            let thread = ThreadStack {
                thread_id: 7,
                native_id: None,
                interpreter,
                owns_gil: false,
                active: true,
                stack: interner.intern_stack(&[frame], 9).0,
                truncated: false,
                failed: false,
            };
            Ok(Stacks { threads: vec![thread], gil })
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
    ) -> Result<(u64, Arc<SharedSession>), Failure> {
        let reader = Box::new(MadeUp { readings: 0, panics_at, takes });
        let target = Arc::new(Target::open(child.id() as i32).unwrap());
        let mode = Mode::Nonblocking;
        let sampler = ProcessSampler::new(target, mode, reader, StopLimits::default(), None).unwrap();
        let options = SamplingOptions {
            period_ns: Some(1_000_000),
            mode: Some(mode),
            reader: None,
            max_depth: 9,
            max_stacks: MAX_STACKS,
            limits: StopLimits::default(),
            names: false,
            timed_names: false,
            timed: 0,
            tasks_period_ns: None,
            max_tasks: 64,
        };
        engine.start_session(sampler, &options, 0).unwrap()
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
        let (child, engine) = (asleep(), Engine::start(Vec::new()).unwrap());
        let (_, good) = watch(&engine, &child, RELIABLE, Duration::ZERO).unwrap();
        let (_, bad) = watch(&engine, &child, 5, Duration::ZERO).unwrap();
        until(|| bad.ended().is_some());
        assert_eq!(bad.ended().unwrap(), "failed: a scripted panic");
        let batch = bad.take();
        assert_eq!((batch.samples, batch.quality.errors["panic"]), (3, 3));
        assert_eq!(watch(&engine, &child, 1, Duration::ZERO).unwrap_err().kind, "panic");
        good.take();
        until(|| good.take().samples > 0);
        assert_eq!(good.ended(), None);
        end(child);
    }

    #[test]
    fn processes_that_are_all_late_share_the_thread() {
        let (child, engine) = (asleep(), Engine::start(Vec::new()).unwrap());
        let takes = Duration::from_millis(3);
        let sessions: Vec<_> = (0..5).map(|_| watch(&engine, &child, RELIABLE, takes).unwrap().1).collect();
        sessions.iter().for_each(|session| drop(session.take()));
        until(|| sessions[0].lock().attempts() >= 40);
        let batches: Vec<_> = sessions.iter().map(|session| session.take()).collect();
        for batch in &batches {
            assert!((30..60).contains(&batch.quality.attempts), "{batches:?}");
            assert!(batch.quality.late_ns > 0);
            assert!(batch.sampler_cpu_ns > 0);
        }
        end(child);
    }

    #[test]
    fn a_pause_lasts_until_a_rate_is_set_and_an_exit_is_noticed_meanwhile() {
        let (child, engine) = (asleep(), Engine::start(Vec::new()).unwrap());
        let (id, session) = watch(&engine, &child, RELIABLE, Duration::ZERO).unwrap();
        engine.set_period(id, None);
        session.take();
        thread::sleep(Duration::from_millis(20));
        assert_eq!(session.take().quality.attempts, 0);
        engine.set_period(id, Some(1_000_000));
        until(|| session.take().quality.attempts > 0);
        engine.set_period(id, None);
        end(child);
        until(|| session.ended().is_some());
        assert_eq!(session.ended().unwrap(), "exited");
    }

    #[test]
    fn ever_new_stacks_are_counted_as_other_and_do_not_fill_the_memory() {
        let (child, engine) = (asleep(), Engine::start(Vec::new()).unwrap());
        let (id, session) = watch(&engine, &child, RELIABLE, Duration::ZERO).unwrap();
        for _ in 0..3 {
            until(|| session.lock().attempts() >= 5 * MAX_STACKS as u64);
            let batch = session.take();
            assert_eq!(batch.rows().len(), MAX_STACKS + 1);
            assert_eq!(batch.other, batch.samples - MAX_STACKS as u64);
            assert!(session.lock().interner.stack_count() <= 2 * MAX_STACKS + 2);
        }
        engine.stop(id, &session);
        assert_eq!(session.ended(), None);
        end(child);
    }

    #[test]
    fn a_closed_engine_ends_its_sessions_and_takes_no_more() {
        let (child, engine) = (asleep(), Engine::start(Vec::new()).unwrap());
        let (id, session) = watch(&engine, &child, RELIABLE, Duration::ZERO).unwrap();
        engine.close();
        session.wait_until_detached(REPLY_TIMEOUT);
        assert_eq!(session.ended(), None);
        engine.set_period(id, None);
        engine.stop(id, &session);
        session.take();
        assert_eq!(session.take().duration_ns, 0);
        end(child);
    }
}
