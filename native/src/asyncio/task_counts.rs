//! Await stacks added up over readings, with weights.

use crate::stacks::stack_interner::{FrameId, FrameTexts, StackId, StackInterner};
use std::collections::HashMap;
use std::sync::Arc;

/// What a task was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskState {
    Running,
    /// It can go on, and its loop has not come to it yet.
    Ready,
    Waiting,
}

impl TaskState {
    pub fn as_str(self) -> &'static str {
        match self {
            TaskState::Running => "task_running",
            TaskState::Ready => "task_ready",
            TaskState::Waiting => "task_waiting",
        }
    }
}

/// One reading of the tasks of a process: a random subset of them, each with the number of tasks that it stands for.
#[derive(Clone, Debug, Default)]
pub struct TaskReading {
    pub tasks: Vec<(StackId, TaskState, f64)>,
    pub longest_ready_ns: u64,
    pub loops: usize,
}

/// Readings since the last batch.
#[derive(Debug, Default)]
pub struct TaskCounts {
    rows: HashMap<(StackId, TaskState), f64>,
    sums: TaskSums,
}

/// Sums over readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskSums {
    pub readings: u64,
    /// Readings that gave nothing, or could not be proved.
    pub failed: u64,
    pub tasks: f64,
    pub ready: f64,
    pub longest_ready_ns: u64,
    /// The most event loops at once.
    pub loops: usize,
}

/// A closed batch.
#[derive(Debug)]
pub struct TaskBatch {
    pub sums: TaskSums,
    pub rows: Vec<(Arc<[FrameId]>, TaskState, f64)>,
}

impl TaskCounts {
    pub fn add(&mut self, reading: &TaskReading) {
        let sums = &mut self.sums;
        sums.readings += 1;
        sums.longest_ready_ns = sums.longest_ready_ns.max(reading.longest_ready_ns);
        sums.loops = sums.loops.max(reading.loops);
        for &(stack, state, weight) in &reading.tasks {
            sums.tasks += weight;
            sums.ready += if state == TaskState::Ready { weight } else { 0.0 };
            *self.rows.entry((stack, state)).or_default() += weight;
        }
    }

    pub fn add_failure(&mut self) {
        self.sums.failed += 1;
    }

    /// Ends this batch. None if nothing was tried. Stacks whose texts do not fit in `room` bytes become `(other)`.
    pub fn close(
        &mut self,
        interner: &StackInterner,
        texts: &FrameTexts,
        mut room: usize,
    ) -> Option<TaskBatch> {
        let TaskCounts { rows, sums } = std::mem::take(self);
        let mut other: HashMap<TaskState, f64> = HashMap::new();
        let mut found = Vec::with_capacity(rows.len());
        for ((stack, state), weight) in rows {
            let frames = interner.frames_of(stack).unwrap_or_default();
            let size = texts.folded_size(&frames);
            if stack == StackId::OTHER || size > room {
                *other.entry(state).or_default() += weight;
                continue;
            }
            room -= size;
            found.push((frames, state, weight));
        }
        let frames = interner.frames_of(StackId::OTHER).unwrap_or_default();
        found.extend(other.into_iter().map(|(state, weight)| (Arc::clone(&frames), state, weight)));
        (sums.readings + sums.failed > 0).then_some(TaskBatch { sums, rows: found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_and_a_batch_without_readings_is_none() {
        let interner = StackInterner::new(10);
        let texts = interner.frame_texts();
        let mut counts = TaskCounts::default();
        assert!(counts.close(&interner, &texts, 100).is_none());
        let tasks = vec![
            (StackId::NO_FRAMES, TaskState::Ready, 2.5),
            (StackId::NO_FRAMES, TaskState::Waiting, 2.5),
            (StackId::OTHER, TaskState::Waiting, 1.0),
        ];
        for longest_ready_ns in [7, 5] {
            counts.add(&TaskReading { tasks: tasks.clone(), longest_ready_ns, loops: 2 });
        }
        counts.add_failure();
        let batch = counts.close(&interner, &texts, 0).unwrap();
        let sums =
            TaskSums { readings: 2, failed: 1, tasks: 12.0, ready: 5.0, longest_ready_ns: 7, loops: 2 };
        assert_eq!(batch.sums, sums);
        assert_eq!(batch.rows.iter().map(|row| row.2).sum::<f64>(), 12.0);
        assert_eq!(batch.rows.len(), 2);
        assert!(counts.close(&interner, &texts, 100).is_none());
    }
}
