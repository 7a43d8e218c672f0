//! Whether repeated half-entered calls are chance, or the program never links its stacks.

/// After so many different moments in a row it is not chance: the program links its stacks differently.
const MAX_MOMENTS: u32 = 60;

/// The moments at which a call was being entered, since the last at which none was.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallEntry {
    moments: u32,
    last: Option<u64>,
}

impl CallEntry {
    /// As if every reading so far had found a call being entered.
    pub fn persistent() -> CallEntry {
        CallEntry { moments: MAX_MOMENTS, last: None }
    }

    /// A call was being entered. `moment` is a fingerprint of what was read: a thread that gets no CPU is found at
    /// the same moment again and again, which is no new evidence.
    pub fn record(&mut self, moment: u64) {
        if self.last != Some(moment) {
            self.last = Some(moment);
            self.moments = self.moments.saturating_add(1);
        }
    }

    /// No call was being entered.
    pub fn reset(&mut self) {
        *self = CallEntry::default();
    }

    /// Whether stacks are to be read without the check.
    pub fn is_persistent(&self) -> bool {
        self.moments >= MAX_MOMENTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_many_different_moments_in_a_row_make_a_rule() {
        let mut call_entry = CallEntry::default();
        for _ in 0..1000 {
            call_entry.record(1);
        }
        assert!(!call_entry.is_persistent());
        (0..50).for_each(|moment| call_entry.record(moment));
        call_entry.reset();
        (0..59).for_each(|moment| call_entry.record(moment));
        assert!(!call_entry.is_persistent());
        call_entry.record(59);
        assert!(call_entry.is_persistent());
        assert!(CallEntry::persistent().is_persistent());
    }
}
