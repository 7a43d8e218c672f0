//! Lists of tasks since CPython 3.14: one of each thread, and one of tasks whose thread has ended.
//!
//! A list is a ring of `llist_node` (Include/internal/pycore_llist.h) in the tasks, through a head. That each node
//! points back to the one before proves that it is one.

use crate::asyncio::objects::read_each;
use crate::cpython::by_address::ByAddress;
use crate::linux::memory::{word, Fault, Memory};

/// More tasks are not followed.
const MAX_TASKS: usize = 1 << 17;
const WORD: usize = size_of::<usize>();
/// Next and previous node.
const NODE_BYTES: usize = 2 * WORD;

/// Follows the rings through these heads. The nodes of last time, `nodes`, are read at once; afterwards those are the
/// nodes of this time.
pub fn follow_rings(memory: &dyn Memory, heads: &[usize], nodes: &mut Vec<usize>) -> Result<(), Fault> {
    let mut bytes = Vec::new();
    read_each(memory, nodes, NODE_BYTES, &mut bytes);
    let read = nodes.iter().zip(bytes.chunks_exact(NODE_BYTES));
    let links: ByAddress<(usize, usize)> =
        read.map(|(&node, bytes)| (node, (word(bytes, 0), word(bytes, WORD)))).collect();
    nodes.clear();
    for &head in heads {
        let mut bytes = [0; NODE_BYTES];
        memory.read(head, &mut bytes)?;
        let (mut previous, mut next, last) = (head, word(&bytes, 0), word(&bytes, WORD));
        while next != head {
            let (after, before) = match links.get(&next) {
                Some(&links) => links,
                None => {
                    memory.read(next, &mut bytes)?;
                    (word(&bytes, 0), word(&bytes, WORD))
                }
            };
            if before != previous || nodes.len() >= MAX_TASKS {
                return Err(Fault { address: next });
            }
            nodes.push(next);
            (previous, next) = (next, after);
        }
        if last != previous {
            return Err(Fault { address: head });
        }
    }
    Ok(())
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
        for known in [vec![], vec![0x300], vec![0x900, 0x200]] {
            let mut nodes = known;
            assert_eq!(follow_rings(&image, &[0x100, 0x400], &mut nodes), Ok(()));
            assert_eq!(nodes, [0x200, 0x300]);
        }
        image.pieces.insert(0x300, node(0x200, 0x200));
        assert!(follow_rings(&image, &[0x100], &mut Vec::new()).is_err());
    }
}
