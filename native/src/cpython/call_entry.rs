//! Whether a call is being entered whenever a process is read by chance, or because its stacks are never linked.

/// After so many different moments in a row this is no chance: the program links its stacks in a way of its own.
const MAX_MOMENTS: u32 = 60;

/// The moments at which a call was being entered, since the last at which none was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entering {
    moments: u32,
    last: Option<u64>,
}

impl Entering {
    /// As if it had been so all the time.
    pub fn always() -> Entering {
        Entering { moments: MAX_MOMENTS, last: None }
    }

    /// A call was being entered. `moment` stands for all that was read of it: a thread that gets no CPU is found
    /// at the same moment again and again, which tells nothing new.
    pub fn found(&mut self, moment: u64) {
        if self.last != Some(moment) {
            self.last = Some(moment);
            self.moments = self.moments.saturating_add(1);
        }
    }

    /// None was.
    pub fn not_found(&mut self) {
        *self = Entering::default();
    }

    /// The stacks are to be read as they are.
    pub fn is_the_rule(&self) -> bool {
        self.moments >= MAX_MOMENTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_different_moments_in_a_row_make_a_rule() {
        let mut entering = Entering::default();
        for _ in 0..1000 {
            entering.found(1);
        }
        assert!(!entering.is_the_rule());
        (0..50).for_each(|moment| entering.found(moment));
        entering.not_found();
        (0..59).for_each(|moment| entering.found(moment));
        assert!(!entering.is_the_rule());
        entering.found(59);
        assert!(entering.is_the_rule());
        assert!(Entering::always().is_the_rule());
    }
}
