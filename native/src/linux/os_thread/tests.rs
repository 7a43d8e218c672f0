use super::*;

const VISIBLE: Visible = Visible { cpu_waits: true, system_calls: true };

fn observation(
    letter: u8,
    runs: u64,
    voluntary: u64,
    involuntary: u64,
    before: Option<Observation>,
) -> Observation {
    let stat = SchedStat { runs, ..SchedStat::default() };
    Observation::new(letter, Some(stat), ContextSwitches { voluntary, involuntary }, before)
}

fn see(thread: &mut OsThread, observation: Observation) {
    (thread.last, thread.settled) = (Some(observation), None);
}

#[test]
fn a_thread_is_still_if_it_gave_up_every_cpu_it_got() {
    let asleep = observation(b'S', 7, 5, 2, None);
    assert!(asleep.off_cpu && !asleep.busy);
    let on_cpu = observation(b'R', 8, 5, 2, Some(asleep));
    assert!(!on_cpu.off_cpu && on_cpu.busy);
    let unknown = Observation::new(b'S', None, ContextSwitches::default(), None);
    assert!(!unknown.off_cpu && !unknown.busy);
}

#[test]
fn a_thread_that_wants_a_cpu_is_busy_if_it_was_pushed_aside_and_idle_if_it_was_woken() {
    let before = observation(b'R', 8, 5, 2, None);
    assert!(observation(b'R', 8, 5, 3, Some(before)).busy);
    assert!(!observation(b'R', 8, 6, 2, Some(before)).busy);
    // Both, in unknown order; or there is no earlier observation.
    assert!(observation(b'R', 9, 6, 3, Some(before)).busy);
    assert!(observation(b'R', 9, 6, 3, None).busy);
}

#[test]
fn the_time_off_the_cpu_is_bounded_by_what_was_not_spent_on_it_and_not_waited_for() {
    let at = |letter, at_ns, on_cpu_ns, delay_ns, before: Option<Observation>| {
        let stat = SchedStat { on_cpu_ns, delay_ns, runs: 5 };
        let switches = ContextSwitches { voluntary: 5, involuntary: 0 };
        Observation { at_ns, ..Observation::new(letter, Some(stat), switches, before) }
    };
    let asleep = at(b'S', 1_000, 100, 10, None);
    assert_eq!(at(b'R', 2_000, 700, 110, Some(asleep)).off_cpu_bound(Some(asleep)), Some(300));
    // It has waited since an earlier observation: for how long is not known, or for 40 ns.
    let waits = at(b'R', 1_000, 100, 10, None);
    assert_eq!(at(b'R', 2_000, 100, 10, Some(waits)).off_cpu_bound(Some(waits)), None);
    let waits = Observation { off_cpu_ns: Some(40), ..waits };
    assert_eq!(at(b'R', 2_000, 1_000, 60, Some(waits)).off_cpu_bound(Some(waits)), Some(90));
    // Clocks that differ do not make it negative, and one that goes back makes it unknown.
    assert_eq!(at(b'R', 2_000, 1_500, 10, Some(waits)).off_cpu_bound(Some(waits)), Some(0));
    assert_eq!(at(b'R', 2_000, 50, 10, Some(waits)).off_cpu_bound(Some(waits)), None);
    let on_cpu = Observation { off_cpu: false, ..waits };
    assert_eq!(at(b'R', 2_000, 1_000, 10, Some(on_cpu)).off_cpu_bound(Some(on_cpu)), None);
}

#[test]
fn the_delay_between_two_observations_is_known_of_a_thread_without_a_cpu() {
    let at = |delay_ns| Observation {
        stat: Some(SchedStat { delay_ns, runs: 7, ..SchedStat::default() }),
        ..observation(b'R', 7, 5, 2, None)
    };
    let (before, now) = (at(1_000), at(1_300));
    assert_eq!(now.delay_since(Some(before)), Some((300, true)));
    assert_eq!(now.delay_since(Some(Observation { cpu_wait: true, ..before })), Some((300, false)));
    assert_eq!(now.delay_since(Some(Observation { runnable: false, ..before })), Some((300, false)));
    assert_eq!(now.delay_since(Some(Observation { off_cpu: false, ..before })), None);
    assert_eq!((now.delay_since(None), before.delay_since(Some(now))), (None, None));
}

#[test]
fn our_own_stop_is_not_taken_for_a_wait() {
    let mut thread = OsThread::new(0, 0, VISIBLE);
    see(&mut thread, observation(b'R', 8, 5, 2, None));
    thread.mark_stopped();
    assert!(observation(b'R', 8, 6, 2, thread.last).busy);
}

#[test]
fn where_runs_are_not_counted_nothing_is_known_to_be_still() {
    let mut thread = OsThread::new(0, 0, VISIBLE);
    see(&mut thread, Observation::new(b'S', None, ContextSwitches::default(), None));
    thread.mark_read();
    assert!(thread.may_have_run() && !thread.is_off_cpu() && !thread.is_on_cpu());
    assert_eq!(thread.recheck(), Recheck::OnCpu);
}

#[test]
fn a_stack_is_good_until_the_thread_is_given_a_cpu() {
    let mut thread = OsThread::new(0, 0, VISIBLE);
    assert!(thread.may_have_run());
    see(&mut thread, observation(b'S', 7, 5, 2, None));
    assert!(thread.may_have_run());
    thread.mark_read();
    assert!(!thread.may_have_run());
    see(&mut thread, observation(b'S', 8, 6, 2, None));
    assert!(thread.may_have_run());
    thread.mark_read();
    thread.invalidate();
    assert!(thread.may_have_run());
    see(&mut thread, observation(b'R', 9, 6, 2, None));
    thread.mark_read();
    assert!(thread.may_have_run());
}

#[test]
fn a_stack_that_was_read_in_one_interpreter_is_not_known_in_another() {
    let mut thread = OsThread::new(0, 0, VISIBLE);
    let ran_in = |thread: &OsThread| [1, 2].map(|interpreter| thread.may_have_run_in(interpreter));
    see(&mut thread, observation(b'S', 7, 5, 2, None));
    thread.mark_read_in(1);
    assert_eq!(ran_in(&thread), [false, true]);
    thread.mark_read_in(2);
    assert_eq!(ran_in(&thread), [false, false]);
    see(&mut thread, observation(b'S', 8, 6, 2, None));
    thread.mark_read_in(2);
    assert_eq!(ran_in(&thread), [true, false]);
    assert!(!thread.may_have_run());
    thread.invalidate();
    thread.mark_read_in(1);
    assert_eq!(ran_in(&thread), [false, true]);
}

#[test]
fn the_counts_are_found_in_what_the_kernel_writes() {
    let status = b"Name:\tState:\tx\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t1\nCpus_allowed:\tff\n\
        voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
    assert_eq!(parse_status(status), Some((b'S', ContextSwitches { voluntary: 12, involuntary: 3 })));
    assert_eq!(parse_status(&status[..80]), None);
    assert_eq!(parse_status(b""), None);
}

#[test]
fn a_thread_that_sleeps_again_is_seen_without_its_status() {
    let (send_tid, receive_tid) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let waiting = std::thread::spawn(move || {
        // SAFETY: gettid takes no arguments.
        send_tid.send(unsafe { libc::gettid() }).unwrap();
        while goes_on.recv().is_ok() {}
    });
    let (pid, tid) = (std::process::id() as i32, receive_tid.recv().unwrap());
    let mut stay = SamplerStay::default();
    let mut thread = OsThread::new(pid, tid, VISIBLE);
    while thread.wait().is_none() {
        thread.observe(&mut stay).unwrap();
    }
    let first = thread.last.unwrap();
    go_on.send(()).unwrap();
    let mut again = OsThread::new(pid, tid, VISIBLE);
    while again.wait().is_none() || again.last.unwrap().runs() == first.runs() {
        again = OsThread::new(pid, tid, VISIBLE);
        again.observe(&mut stay).unwrap();
    }
    thread.status = ProcFile::new("/proc/0/status".into());
    assert_eq!(thread.observe(&mut stay).unwrap(), Activity::Ran);
    assert_eq!((thread.is_off_cpu(), thread.busy(), thread.wait()), (true, Some(false), first.wait));
    assert_eq!(thread.observe(&mut stay).unwrap(), Activity::OffCpu);
    thread.mark_read();
    assert_eq!(thread.observe(&mut stay).unwrap(), Activity::Settled);
    thread.invalidate();
    assert_eq!(thread.observe(&mut stay).unwrap(), Activity::OffCpu);
    thread.mark_read();
    drop(go_on);
    waiting.join().unwrap();
    assert_ne!(thread.observe(&mut stay).unwrap(), Activity::Settled);
}

#[test]
fn this_thread_is_on_a_cpu_and_a_waiting_one_is_still() {
    let (send_tid, receive_tid) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let waiting = std::thread::spawn(move || {
        // SAFETY: gettid takes no arguments.
        send_tid.send(unsafe { libc::gettid() }).unwrap();
        let _ = goes_on.recv();
    });
    let pid = std::process::id() as i32;
    let mut stay = SamplerStay::default();
    let mut other = OsThread::new(pid, receive_tid.recv().unwrap(), VISIBLE);
    while other.observe(&mut stay).unwrap() == Activity::Exited
        || !other.is_off_cpu()
        || other.busy() == Some(true)
    {
        std::thread::yield_now();
    }
    other.mark_read();
    assert!(other.observe(&mut stay).unwrap() != Activity::Exited && !other.may_have_run());
    assert_eq!(other.recheck(), Recheck::OffCpu);
    // SAFETY: gettid takes no arguments.
    let mut here = OsThread::new(pid, unsafe { libc::gettid() }, VISIBLE);
    assert_eq!(here.observe(&mut stay).unwrap(), Activity::Ran);
    assert_eq!((here.is_off_cpu(), here.busy()), (false, Some(true)));
    assert_ne!(here.recheck(), Recheck::OffCpu);
    drop(go_on);
    waiting.join().unwrap();
    assert_eq!(other.recheck(), Recheck::Ran);
    // The kernel is done with a thread a little after it can be joined.
    while other.observe(&mut stay).unwrap() != Activity::Exited {
        std::thread::yield_now();
    }
}
