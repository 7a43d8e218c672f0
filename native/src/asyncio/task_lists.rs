//! Lists of tasks since CPython 3.14: one of each thread, and one of tasks whose thread has ended.
//!
//! A list is a ring of `llist_node` (Include/internal/pycore_llist.h) in the tasks, through a head. That each node
//! points back to the one before proves that it is one.

use crate::asyncio::objects::read_each;
use crate::linux::memory::{word, Fault, Memory};
use rustc_hash::FxHashMap;

/// As many tasks are followed while a thread may be stopped for it; half a microsecond each.
const MAX_STOPPED: usize = 1000;
/// More tasks are not followed.
const MAX_TASKS: usize = 1 << 17;
/// After so many nodes that follow the same ones as before there is nothing new.
const MAX_UNCHANGED: usize = 8;
/// How often a ring is followed from its end again because the node that was read next had been taken out.
const MAX_TRIES: usize = 100;
const WORD: usize = size_of::<usize>();
/// Next and previous node.
const NODE_BYTES: usize = 2 * WORD;

/// The links of these nodes: (next, previous), 0 if they cannot be read.
fn read_links(memory: &dyn Memory, nodes: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let addresses: Vec<usize> = nodes.iter().map(|node| node.0).collect();
    let mut bytes = Vec::new();
    read_each(memory, &addresses, NODE_BYTES, &mut bytes);
    bytes.chunks_exact(NODE_BYTES).map(|bytes| (word(bytes, 0), word(bytes, WORD))).collect()
}

fn read_link(memory: &dyn Memory, node: usize) -> Result<(usize, usize), Fault> {
    let mut bytes = [0; NODE_BYTES];
    memory.read(node, &mut bytes)?;
    Ok((word(&bytes, 0), word(&bytes, WORD)))
}

/// Follows the rings through these heads. The nodes of last time, `nodes`, are read at once; afterwards those are the
/// nodes of this time, each with the one before.
///
/// # Errors
/// If they are no rings, or have `MAX_STOPPED` nodes: those found so far are in `nodes` then.
fn follow_rings(memory: &dyn Memory, heads: &[usize], nodes: &mut Vec<(usize, usize)>) -> Result<(), Fault> {
    let links = read_links(memory, nodes);
    let known: FxHashMap<usize, (usize, usize)> =
        nodes.iter().zip(links).map(|(&(node, _), links)| (node, links)).collect();
    nodes.clear();
    for &head in heads {
        let (mut next, last) = read_link(memory, head)?;
        let mut previous = head;
        while next != head {
            let (after, before) = match known.get(&next) {
                Some(&links) => links,
                None => read_link(memory, next)?,
            };
            if before != previous || nodes.len() >= MAX_STOPPED {
                return Err(Fault { address: next });
            }
            nodes.push((next, before));
            (previous, next) = (next, after);
        }
        if last != previous {
            return Err(Fault { address: head });
        }
    }
    Ok(())
}

/// The same for rings that change meanwhile, and may be long: of the nodes of last time those that are still in a ring,
/// and new ones, which come last in it. A node that was taken out has no next one. Where addresses are used again a new
/// node may be overlooked: that is over once all rings are followed with no `nodes` of last time.
fn follow_while_it_changes(
    memory: &dyn Memory,
    heads: &[usize],
    nodes: &mut Vec<(usize, usize)>,
) -> Result<(), Fault> {
    let links = read_links(memory, nodes);
    let before: FxHashMap<usize, usize> = nodes.iter().copied().collect();
    let mut found: FxHashMap<usize, usize> = nodes
        .iter()
        .zip(links)
        .filter(|(_, links)| links.0 != 0)
        .map(|(&(node, _), links)| (node, links.1))
        .collect();
    for &head in heads {
        let (mut node, mut unchanged, mut tries) = (read_link(memory, head)?.1, 0, 0);
        while node != head && unchanged < MAX_UNCHANGED && found.len() < MAX_TASKS {
            let (next, previous) = read_link(memory, node)?;
            if next == 0 && tries < MAX_TRIES {
                (node, unchanged, tries) = (read_link(memory, head)?.1, 0, tries + 1);
                continue;
            }
            unchanged = if before.get(&node) == Some(&previous) { unchanged + 1 } else { 0 };
            found.insert(node, previous);
            node = previous;
        }
    }
    nodes.clear();
    nodes.extend(found);
    Ok(())
}

/// The nodes of all rings, as of the last reading.
#[derive(Debug, Default)]
pub struct TaskRings {
    /// Each with the one before.
    nodes: Vec<(usize, usize)>,
    /// If they were followed ahead: the heads of those rings, and how many nodes they have.
    ahead: Option<(Vec<usize>, usize)>,
}

impl TaskRings {
    pub fn nodes(&self) -> impl Iterator<Item = usize> + '_ {
        self.nodes.iter().map(|node| node.0)
    }

    /// There is no time to follow them while threads are stopped.
    pub fn are_long(&self) -> bool {
        self.nodes.len() >= MAX_STOPPED
    }

    /// Follows long rings while they change, `from_end_to_end` or where they are not those of last time.
    pub fn follow_ahead(
        &mut self,
        memory: &dyn Memory,
        heads: Vec<usize>,
        from_end_to_end: bool,
    ) -> Result<(), Fault> {
        self.ahead = None;
        if !self.are_long() {
            return Ok(());
        }
        if from_end_to_end {
            self.nodes.clear();
        }
        follow_while_it_changes(memory, &heads, &mut self.nodes)?;
        self.ahead = self.are_long().then_some((heads, self.nodes.len()));
        Ok(())
    }

    /// Follows the rings that were not followed ahead.
    pub fn follow(&mut self, memory: &dyn Memory, mut heads: Vec<usize>) -> Result<(), Fault> {
        let Some((ahead, count)) = &self.ahead else {
            return follow_rings(memory, &heads, &mut self.nodes);
        };
        heads.retain(|head| !ahead.contains(head));
        let mut others = Vec::new();
        follow_rings(memory, &heads, &mut others)?;
        self.nodes.truncate(*count);
        self.nodes.extend(others);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::memory::MemoryImage;

    #[test]
    fn rings_are_followed_and_what_is_none_is_refused() {
        let node = |next: usize, previous: usize| [next.to_ne_bytes(), previous.to_ne_bytes()].concat();
        let mut image = MemoryImage {
            pieces: [
                (0x100, node(0x200, 0x300)),
                (0x200, node(0x300, 0x100)),
                (0x300, node(0x100, 0x200)),
                (0x400, node(0x400, 0x400)),
            ]
            .into(),
        };
        let found = [(0x200, 0x100), (0x300, 0x200)];
        for known in [vec![], vec![(0x300, 0)], vec![(0x900, 0), (0x200, 0)]] {
            let mut nodes = known.clone();
            assert_eq!(follow_rings(&image, &[0x100, 0x400], &mut nodes), Ok(()));
            assert_eq!(nodes, found);
            nodes = known;
            assert_eq!(follow_while_it_changes(&image, &[0x100, 0x400], &mut nodes), Ok(()));
            nodes.sort_unstable();
            assert_eq!(nodes, found);
        }
        image.pieces.insert(0x300, node(0x200, 0x200));
        assert!(follow_rings(&image, &[0x100], &mut Vec::new()).is_err());
    }

    /// A ring through this head, and that of its `count` nodes.
    fn ring(head: usize, count: usize) -> impl Iterator<Item = (usize, Vec<u8>)> {
        let address = move |n: usize| head + n % (count + 1) * 0x10;
        (0..=count).map(move |n| {
            let links = [address(n + 1), address(n + count)];
            (address(n), links.map(usize::to_ne_bytes).concat())
        })
    }

    #[test]
    fn a_part_of_the_nodes_is_never_taken_for_all() {
        let (long, short, new) = (0x10_0000, 0x20_0000, 0x30_0000);
        let count = MAX_STOPPED + 500;
        let pieces = ring(long, count).chain(ring(short, 2)).chain(ring(new, 3));
        let image = MemoryImage { pieces: pieces.collect() };
        let mut rings = TaskRings::default();
        assert!(rings.follow(&image, vec![short, long]).is_err());
        assert_eq!(rings.nodes().count(), MAX_STOPPED);
        // The head of the long ring is not known for a while.
        assert_eq!(rings.follow_ahead(&image, vec![short], false), Ok(()));
        assert!(rings.follow(&image, vec![short, long]).is_err());
        assert_eq!(rings.follow_ahead(&image, vec![short, long], false), Ok(()));
        for (heads, expected) in [(vec![short, long], count + 2), (vec![short, long, new], count + 5)] {
            for _ in 0..2 {
                assert_eq!(rings.follow(&image, heads.clone()), Ok(()));
                assert_eq!(rings.nodes().count(), expected);
            }
        }
    }
}
