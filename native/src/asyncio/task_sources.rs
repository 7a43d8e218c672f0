//! Where asyncio keeps its tasks: found once, when `asyncio.tasks` is imported.

use crate::asyncio::objects::{Kind, Objects};
use crate::linux::memory::{Fault, Memory};

/// Of modules: their dict.
const MODULE_DICT: usize = 16;

/// The collections of one interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSources {
    /// Sets, and whether their members are weak references.
    pub sets: Vec<(usize, bool)>,
    /// `_current_tasks`, a dict of the running task of each loop; 0 without one.
    pub current: usize,
}

impl TaskSources {
    /// None if the process has no asyncio (yet).
    pub fn find(
        objects: &mut Objects,
        memory: &dyn Memory,
        interpreter: usize,
    ) -> Result<Option<TaskSources>, Fault> {
        let modules = memory.word(interpreter.wrapping_add(objects.layout.interpreter.modules))?;
        let entries = objects.dict(memory, modules)?;
        let Some(tasks) = objects.find(memory, &entries, "asyncio.tasks") else { return Ok(None) };
        let names = objects.dict(memory, memory.word(tasks.wrapping_add(MODULE_DICT))?)?;
        let mut found = TaskSources::default();
        // 3.11 has the first; later versions have the other two.
        for (name, weak) in [("_all_tasks", true), ("_scheduled_tasks", true), ("_eager_tasks", false)] {
            let Some(value) = objects.find(memory, &names, name) else { continue };
            let set = if weak { objects.attribute(memory, value, "data")? } else { Some(value) };
            let Some(set) = set else { return Ok(None) };
            if objects.kind_of(memory, set)? != Kind::Set {
                return Ok(None);
            }
            found.sets.push((set, weak));
        }
        found.current = objects.find(memory, &names, "_current_tasks").unwrap_or(0);
        Ok((!found.sets.is_empty()).then_some(found))
    }
}
