//! The times of ticks.
//!
//! Intervals are uniform in 0.5 to 1.5 periods: fixed intervals run in lock-step with periodic work, exponential
//! ones leave long gaps. Each deadline follows from the deadline before, not from the end of a tick, so lateness
//! does not lower the rate. Two things do, and the time that is lost is counted:
//! - a tick more than a period late, because catching up would hit the target with a burst;
//! - readings so slow (thousands of frames, hundreds of threads) that the target would be stopped for more than a
//!   quarter of the time. The mean over many ticks decides, never one tick: a pause after each slow tick would
//!   sample less often whatever makes ticks slow.

/// Minimum time between stops, on average, for each unit of time stopped.
const MIN_RUN_TO_STOP_RATIO: f64 = 3.0;
/// The weight of the last tick in the mean: it follows a change within some dozens of ticks.
const EWMA_WEIGHT: f64 = 1.0 / 32.0;

/// A sequence of absolute deadlines on the monotonic clock, in nanoseconds.
#[derive(Debug)]
pub struct Schedule {
    /// None: paused.
    period_ns: Option<u64>,
    deadline_ns: u64,
    mean_stop_ns: f64,
}

/// The deadline of a schedule that is paused.
pub const NEVER: u64 = u64::MAX;

impl Schedule {
    /// The first deadline is drawn like all others. `jitter` is uniform in [0, 1).
    pub fn new(period_ns: Option<u64>, now_ns: u64, jitter: f64) -> Schedule {
        let mut schedule = Schedule { period_ns: None, deadline_ns: NEVER, mean_stop_ns: 0.0 };
        schedule.set_period(period_ns, now_ns, jitter);
        schedule
    }

    /// Goes on with another period, or pauses. The time until now is not given up.
    pub fn set_period(&mut self, period_ns: Option<u64>, now_ns: u64, jitter: f64) {
        if period_ns == self.period_ns {
            return;
        }
        self.period_ns = period_ns;
        self.deadline_ns = match period_ns {
            None => NEVER,
            Some(period_ns) => {
                let interval_ns = self.interval_ns(period_ns, jitter).0;
                now_ns.saturating_add(interval_ns)
            }
        };
    }

    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Moves on to the next deadline after a tick that ended at `now_ns` and stopped the target for
    /// `stop_ns`. Returns the time that was given up.
    pub fn advance(&mut self, now_ns: u64, stop_ns: u64, jitter: f64) -> u64 {
        self.mean_stop_ns += (stop_ns as f64 - self.mean_stop_ns) * EWMA_WEIGHT;
        let Some(period_ns) = self.period_ns else { return 0 };
        let (interval_ns, stretched_ns) = self.interval_ns(period_ns, jitter);
        self.deadline_ns = self.deadline_ns.saturating_add(interval_ns);
        let late_ns = now_ns.saturating_sub(self.deadline_ns);
        if late_ns <= period_ns {
            return stretched_ns;
        }
        self.deadline_ns = now_ns;
        stretched_ns + late_ns
    }

    /// An interval, and by how much it is longer than the period asks for.
    fn interval_ns(&self, period_ns: u64, jitter: f64) -> (u64, u64) {
        let planned_ns = (period_ns as f64 * (0.5 + jitter)) as u64;
        let min_interval_ns = ((1.0 + MIN_RUN_TO_STOP_RATIO) * self.mean_stop_ns * (0.5 + jitter)) as u64;
        let interval_ns = planned_ns.max(min_interval_ns);
        (interval_ns, interval_ns - planned_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_interval_is_the_period() {
        let mut schedule = Schedule::new(Some(1000), 0, 0.5);
        for n in 0..1000 {
            let now = schedule.deadline_ns();
            assert_eq!(schedule.advance(now, 10, f64::from(n) / 1000.0), 0);
        }
        assert!((schedule.deadline_ns() as i64 - 1_000_500).abs() < 2000);
    }

    #[test]
    fn a_tick_a_little_late_does_not_move_the_next_deadline() {
        let mut schedule = Schedule::new(Some(1000), 0, 0.5);
        assert_eq!(schedule.advance(1900, 10, 0.5), 0);
        assert_eq!(schedule.deadline_ns(), 2000);
        assert_eq!(schedule.advance(4000, 10, 0.5), 0);
        assert_eq!(schedule.deadline_ns(), 3000);
    }

    #[test]
    fn after_a_long_stall_ticks_are_skipped_and_the_time_is_counted() {
        let mut schedule = Schedule::new(Some(1000), 0, 0.5);
        assert_eq!(schedule.advance(9000, 10, 0.5), 7000);
        assert_eq!(schedule.deadline_ns(), 9000);
        assert_eq!(schedule.advance(9100, 10, 0.5), 0);
        assert_eq!(schedule.deadline_ns(), 10_000);
    }

    #[test]
    fn one_slow_tick_changes_nothing_and_many_lower_the_rate() {
        let mut schedule = Schedule::new(Some(1000), 0, 0.5);
        assert_eq!(schedule.advance(1900, 900, 0.5), 0);
        let mut given_up = 0;
        for _ in 0..1000 {
            let now = schedule.deadline_ns() + 900;
            given_up += schedule.advance(now, 900, 0.5);
        }
        let before = schedule.deadline_ns();
        schedule.advance(before + 900, 900, 0.5);
        assert!((schedule.deadline_ns() - before).abs_diff(3600) < 10);
        assert!(given_up > 2_000_000);
    }

    #[test]
    fn a_pause_gives_up_no_time() {
        let mut schedule = Schedule::new(Some(1000), 0, 0.5);
        schedule.set_period(None, 500, 0.5);
        assert_eq!(schedule.deadline_ns(), NEVER);
        assert_eq!(schedule.advance(600, 10, 0.5), 0);
        assert_eq!(schedule.deadline_ns(), NEVER);
        schedule.set_period(Some(2000), 50_000, 0.5);
        assert_eq!(schedule.deadline_ns(), 52_000);
        assert_eq!(schedule.advance(52_010, 10, 0.5), 0);
        schedule.set_period(Some(2000), 53_000, 0.9);
        assert_eq!(schedule.deadline_ns(), 54_000);
    }
}
