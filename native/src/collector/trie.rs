//! The call tree of stacks, in columns.
//!
//! `sidelight_collector.query.call_tree` is the reference in Python (over `sidelight_model.tree`) and defines each
//! number; a test compares the two. Here the stacks are sorted by the texts of their frames first. Each then shares
//! exactly one path from the root with the one before it, so nodes are made in pre-order, no node is searched for,
//! and nothing recurses.

use crate::collector::columns::{span, Lists, MismatchedColumns};
use crate::collector::words::Words;

const ROOT: &str = "total";
const OTHER: &str = "(other)";
const NONE: u32 = u32::MAX;

/// Fewer lists than this are sorted by comparing them.
const SMALL_RUN: usize = 12;

/// Integers up to this are exact as floating point numbers.
const MAX_EXACT_F64: u64 = 1 << 53;

/// One side of a comparison: rows of a stack number, samples, and the nanoseconds per sample.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub stacks: &'a [i32],
    pub samples: &'a [i64],
    pub periods: &'a [i64],
}

/// Stacks, each with a number, of frames whose texts are kept once.
pub struct Pool {
    lines: bool,
    words: Words,
    frames: Vec<u32>,
    /// Where in `frames` each stack ends.
    ends: Vec<usize>,
    /// The call paths of as many stacks as there were when the last tree was drawn.
    paths: Paths,
    root: u32,
    other: u32,
}

/// The call paths of stacks as nodes in pre-order, and the node that each stack ends at.
#[derive(Default)]
struct Paths {
    level: Vec<u32>,
    word: Vec<u32>,
    node: Vec<u32>,
}

impl Pool {
    /// A pool whose stack 0 is this frame alone. Without `lines` frames are taken without their line numbers.
    pub fn new(first: &str, lines: bool) -> Pool {
        let mut words = Words::new();
        let (root, other, first) = (words.number(ROOT), words.number(OTHER), words.number(first));
        Pool { lines, words, frames: vec![first], ends: vec![1], paths: Paths::default(), root, other }
    }

    pub fn stacks(&self) -> usize {
        self.ends.len()
    }

    /// Adds these rows of a column of stacks, numbered on from those that are here.
    pub fn take(&mut self, lists: Lists<'_>, rows: &[i32]) -> Result<(), MismatchedColumns> {
        let mut word_of_code = vec![NONE; lists.words.offsets.len().saturating_sub(1)];
        for &row in rows {
            let codes =
                lists.codes.get(span(lists.offsets, usize::try_from(row).map_err(|_| MismatchedColumns)?)?);
            let codes = codes.ok_or(MismatchedColumns)?;
            self.frames.reserve(codes.len());
            for &code in codes {
                let at = usize::try_from(code).map_err(|_| MismatchedColumns)?;
                let known = *word_of_code.get(at).ok_or(MismatchedColumns)?;
                let word = if known == NONE { self.folded(lists.words.get(at)?) } else { known };
                if known == NONE {
                    word_of_code[at] = word;
                }
                self.frames.push(word);
            }
            self.ends.push(self.frames.len());
        }
        Ok(())
    }

    /// The tree of these sides, of its heaviest nodes if it has more than `most`. None if what it adds up to
    /// does not fit 63 bits.
    pub fn draw(&mut self, sides: &[Side<'_>], most: usize) -> Result<Option<CallTree>, MismatchedColumns> {
        self.find_paths();
        let Some(tree) = self.tree(sides)? else { return Ok(None) };
        let nodes = tree.level.len();
        if nodes <= most {
            return Ok(Some(self.to_call_tree(&tree, nodes, 0)));
        }
        let pruned = prune(&tree, &heaviest_nodes(&tree, most.max(1)), self.other);
        Ok(Some(self.to_call_tree(&pruned, nodes, nodes - most.max(1))))
    }

    /// What each frame cost, in the order of their texts. None if what it adds up to does not fit 63 bits.
    pub fn costs(&self, sides: &[Side<'_>]) -> Result<Option<Vec<Costs>>, MismatchedColumns> {
        let mut costs = vec![vec![Cost::default(); sides.len()]; self.words.len()];
        let mut occurs = vec![false; self.words.len()];
        for (at, side) in sides.iter().enumerate() {
            let mut weights = vec![(0, 0); self.stacks()];
            let mut present = vec![false; self.stacks()];
            let Some(()) = sum_weights(side, &mut weights, &mut present)? else { return Ok(None) };
            // The last stack that each frame was counted for.
            let mut counted = vec![usize::MAX; self.words.len()];
            for number in (0..self.stacks()).filter(|&number| present[number]) {
                let (samples, ns) = weights[number];
                for &word in self.stack(number) {
                    occurs[word as usize] = true;
                    if std::mem::replace(&mut counted[word as usize], number) != number {
                        let cost = &mut costs[word as usize][at];
                        (cost.total_samples, cost.total_ns) =
                            (cost.total_samples + samples, cost.total_ns + ns);
                    }
                }
                if let Some(&leaf) = self.stack(number).last() {
                    let cost = &mut costs[leaf as usize][at];
                    (cost.self_samples, cost.self_ns) = (cost.self_samples + samples, cost.self_ns + ns);
                }
            }
        }
        let rows = self.words.iter().zip(costs).zip(occurs).filter(|&(_, occurs)| occurs);
        let mut rows: Vec<Costs> = rows.map(|((text, costs), _)| (text.to_string(), costs)).collect();
        rows.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok(Some(rows))
    }

    fn folded(&mut self, text: &str) -> u32 {
        if self.lines {
            self.words.number(text)
        } else {
            self.words.number_without_line(text)
        }
    }

    fn stack(&self, number: usize) -> &[u32] {
        &self.frames[self.frames_of(number)]
    }

    fn frames_of(&self, number: usize) -> std::ops::Range<usize> {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        start..self.ends[number]
    }

    /// Brings the call paths up to date.
    fn find_paths(&mut self) {
        if self.has_paths() {
            return;
        }
        let ranks = self.words.ranks();
        let ranked: Vec<u32> = self.frames.iter().map(|&word| ranks[word as usize]).collect();
        let (order, shared) =
            sort_lists(self.stacks() as u32, |number| &ranked[self.frames_of(number as usize)]);
        let mut paths = Paths { level: vec![0], word: vec![self.root], node: vec![0; self.stacks()] };
        let mut path: Vec<u32> = vec![0];
        for (number, shared) in order.into_iter().zip(shared) {
            path.truncate(shared as usize + 1);
            for &word in &self.stack(number as usize)[shared as usize..] {
                paths.level.push(path.len() as u32);
                paths.word.push(word);
                path.push(paths.level.len() as u32 - 1);
            }
            paths.node[number as usize] = path[path.len() - 1];
        }
        self.paths = paths;
    }

    fn has_paths(&self) -> bool {
        self.paths.node.len() == self.stacks()
    }

    fn tree(&self, sides: &[Side<'_>]) -> Result<Option<Tree>, MismatchedColumns> {
        let mut weights = vec![vec![(0, 0); self.stacks()]; sides.len()];
        let mut present = vec![false; self.stacks()];
        for (side, weights) in sides.iter().zip(&mut weights) {
            let Some(()) = sum_weights(side, weights, &mut present)? else { return Ok(None) };
        }
        let Paths { level, word, node } = &self.paths;
        let mut has = vec![false; level.len()];
        has[0] = true;
        node.iter()
            .zip(&present)
            .filter(|(_, &present)| present)
            .for_each(|(&node, _)| has[node as usize] = true);
        // Before a node, the last one that is a level above it is its parent.
        let mut last = 0;
        for (node, &level) in level.iter().enumerate().rev() {
            has[node] |= level + 1 == last;
            last = if has[node] { level } else { last };
        }
        let mut tree = Tree::new(sides.len());
        let mut moved = vec![0; level.len()];
        for node in (0..level.len()).filter(|&node| has[node]) {
            moved[node] = tree.push(level[node], word[node]);
        }
        tree.node = vec![-1; self.stacks()];
        for number in (0..self.stacks()).filter(|&number| present[number]) {
            let leaf = moved[node[number] as usize];
            tree.node[number] = leaf as i32;
            for (self_weights, weights) in tree.self_weights.iter_mut().zip(&weights) {
                // What all rows add up to fits: `sum_weights` has checked it.
                self_weights[leaf].0 += weights[number].0;
                self_weights[leaf].1 += weights[number].1;
            }
        }
        Ok(Some(tree))
    }

    /// The tree with names in the order in which nodes use them, and time in microseconds.
    fn to_call_tree(&self, tree: &Tree, whole: usize, dropped: usize) -> CallTree {
        let mut code = vec![NONE; self.words.len()];
        let mut names: Vec<String> = Vec::new();
        let mut numbered = |word: u32| {
            let code = &mut code[word as usize];
            if *code == NONE {
                *code = names.len() as u32;
                names.push(self.words.get(word).to_string());
            }
            *code
        };
        let name = tree.word.iter().map(|&word| numbered(word)).collect();
        let samples = |weights: &Vec<(i64, i64)>| weights.iter().map(|weight| weight.0).collect();
        let time = |weights: &Vec<(i64, i64)>| weights.iter().map(|weight| microseconds(weight.1)).collect();
        CallTree {
            names,
            level: tree.level.clone(),
            name,
            samples: tree.self_weights.iter().map(samples).collect(),
            microseconds: tree.self_weights.iter().map(time).collect(),
            node: tree.node.clone(),
            whole,
            dropped,
        }
    }
}

/// The numbers below `count` in the order of their lists of ranks, and how many ranks each list begins with as the one
/// before it does. What a run of lists has in common is read once for each of them, and not at each comparison.
fn sort_lists<'a>(count: u32, list: impl Fn(u32) -> &'a [u32]) -> (Vec<u32>, Vec<u32>) {
    // What is left of each list, the rank before it and its number. Lists that have ended come first.
    type Rest<'a> = (u32, u32, &'a [u32]);
    let mut rests: Vec<Rest<'a>> = (0..count).map(|number| (0, number, list(number))).collect();
    let mut shared = vec![0; rests.len()];
    // Runs of lists that began alike, and how many ranks they began with.
    let whole = 0..rests.len();
    let mut runs = vec![(whole, 0)];
    while let Some((run, begun)) = runs.pop() {
        let within = &mut rests[run.clone()];
        if within.len() < SMALL_RUN {
            within.sort_unstable_by(|one, other| one.2.cmp(other.2));
            for at in 1..within.len() {
                shared[run.start + at] = (begun + count_shared(within[at].2, within[at - 1].2)) as u32;
            }
            continue;
        }
        let first = within[0].2;
        let common = within.iter().fold(first.len(), |common, each| count_shared(&first[..common], each.2));
        shared[run.start + 1..run.end].fill((begun + common) as u32);
        for each in within.iter_mut() {
            let rest = &each.2[common..];
            (each.0, each.2) = rest.split_first().map_or((0, rest), |(&rank, rest)| (rank + 1, rest));
        }
        within.sort_unstable_by_key(|each| each.0);
        let mut start = run.start;
        for alike in within.chunk_by(|one, other| one.0 == other.0) {
            if alike[0].0 > 0 && alike.len() > 1 {
                runs.push((start..start + alike.len(), begun + common + 1));
            }
            start += alike.len();
        }
    }
    (rests.into_iter().map(|rest| rest.1).collect(), shared)
}

/// How many frames two lists begin with alike.
fn count_shared(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Samples and nanoseconds by stack; None if all of them together do not fit.
fn sum_weights(
    side: &Side<'_>,
    weights: &mut [(i64, i64)],
    present: &mut [bool],
) -> Result<Option<()>, MismatchedColumns> {
    if side.stacks.len() != side.samples.len() || side.stacks.len() != side.periods.len() {
        return Err(MismatchedColumns);
    }
    let (mut all_samples, mut all_ns) = (0i64, 0i64);
    for ((&stack, &samples), &period) in side.stacks.iter().zip(side.samples).zip(side.periods) {
        let stack = usize::try_from(stack).map_err(|_| MismatchedColumns)?;
        let weight = weights.get_mut(stack).ok_or(MismatchedColumns)?;
        if samples < 0 || period < 0 {
            return Err(MismatchedColumns);
        }
        let Some(ns) = samples.checked_mul(period) else { return Ok(None) };
        let sums = (all_samples.checked_add(samples), all_ns.checked_add(ns));
        let (Some(more_samples), Some(more_ns)) = sums else { return Ok(None) };
        (all_samples, all_ns) = (more_samples, more_ns);
        *weight = (weight.0 + samples, weight.1 + ns);
        present[stack] = true;
    }
    Ok(Some(()))
}

/// Nodes in pre-order, for each side samples and nanoseconds that ended exactly there, and the node of each stack.
struct Tree {
    level: Vec<u32>,
    word: Vec<u32>,
    self_weights: Vec<Vec<(i64, i64)>>,
    node: Vec<i32>,
}

impl Tree {
    fn new(sides: usize) -> Tree {
        Tree { level: Vec::new(), word: Vec::new(), self_weights: vec![Vec::new(); sides], node: Vec::new() }
    }

    fn push(&mut self, level: u32, word: u32) -> usize {
        self.level.push(level);
        self.word.push(word);
        self.self_weights.iter_mut().for_each(|weights| weights.push((0, 0)));
        self.level.len() - 1
    }

    /// For each side what each node and everything below it adds up to.
    fn totals(&self) -> Vec<Vec<(i64, i64)>> {
        let mut totals = self.self_weights.clone();
        let mut above = vec![0; self.level.len()];
        let mut path = vec![0];
        for (node, &level) in self.level.iter().enumerate().skip(1) {
            path.truncate(level as usize);
            above[node] = *path.last().unwrap_or(&0);
            path.push(node);
        }
        for total in &mut totals {
            for node in (1..total.len()).rev() {
                let (samples, ns) = total[node];
                let parent = &mut total[above[node]];
                *parent = (parent.0 + samples, parent.1 + ns);
            }
        }
        totals
    }
}

/// Which nodes to keep: those with the largest share of any side's time (of its samples, if none took time). Of
/// equals the first in pre-order, so that no node is kept without the one above it.
fn heaviest_nodes(tree: &Tree, most: usize) -> Vec<bool> {
    let mut weight = vec![0f64; tree.level.len()];
    for total in tree.totals() {
        let (all_samples, all_ns) = total[0];
        let whole = if all_ns > 0 { all_ns } else { all_samples };
        if whole > 0 {
            for (weight, (samples, ns)) in weight.iter_mut().zip(total) {
                let part = if all_ns > 0 { ns } else { samples };
                *weight = weight.max(share(part as u64, whole as u64));
            }
        }
    }
    let mut nodes: Vec<usize> = (0..weight.len()).collect();
    let heavier = |&one: &usize, &other: &usize| weight[other].total_cmp(&weight[one]).then(one.cmp(&other));
    nodes.select_nth_unstable_by(most - 1, heavier);
    let mut keep = vec![false; weight.len()];
    nodes[..most].iter().for_each(|&node| keep[node] = true);
    keep
}

/// The nearest floating point number to a part of a whole, which is Python's quotient of two whole numbers.
fn share(part: u64, whole: u64) -> f64 {
    if whole <= MAX_EXACT_F64 || part == 0 {
        return part as f64 / whole as f64;
    }
    // As many bits as a quotient may need and more; one that is cut off still tells a tie from more than one.
    let shift = part.leading_zeros() + 62;
    let wide = u128::from(part) << shift;
    let whole = u128::from(whole);
    let cut = u128::from(!wide.is_multiple_of(whole));
    ((wide / whole) | cut) as f64 / 2f64.powi(shift as i32)
}

/// What is not kept becomes one child `other` of the node that it hung from.
fn prune(tree: &Tree, keep: &[bool], other: u32) -> Tree {
    let mut pruned = Tree::new(tree.self_weights.len());
    let mut moved = Vec::with_capacity(tree.level.len());
    let mut path: Vec<usize> = Vec::new();
    // The child of each kept node that stands for those that were dropped.
    let mut folded: Vec<usize> = Vec::new();
    for node in 0..tree.level.len() {
        let level = tree.level[node];
        // Levels below the root are without a gap: the kept nodes above this one are the first of the path.
        path.truncate(level as usize);
        let target = if keep[node] {
            let target = pruned.push(level, tree.word[node]);
            path.push(target);
            target
        } else {
            let above = *path.last().unwrap_or(&0);
            folded.resize(pruned.level.len().max(folded.len()), usize::MAX);
            if folded[above] == usize::MAX {
                folded[above] = pruned.push(pruned.level[above] + 1, other);
            }
            folded[above]
        };
        moved.push(target as i32);
        for (to, from) in pruned.self_weights.iter_mut().zip(&tree.self_weights) {
            to[target] = (to[target].0 + from[node].0, to[target].1 + from[node].1);
        }
    }
    pruned.node =
        tree.node.iter().map(|&node| usize::try_from(node).map_or(-1, |node| moved[node])).collect();
    pruned
}

/// Rounded, halves to the even one.
fn microseconds(ns: i64) -> i64 {
    let (whole, rest) = (ns / 1000, ns % 1000);
    whole + i64::from(rest > 500 || rest == 500 && whole % 2 == 1)
}

/// A frame, and what it cost on each side.
pub type Costs = (String, Vec<Cost>);

/// What a frame cost: `total` has a stack once, however often the frame is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub self_samples: i64,
    pub total_samples: i64,
    pub self_ns: i64,
    pub total_ns: i64,
}

/// A call tree in pre-order: names are numbered in the order in which nodes use them.
#[derive(Debug, PartialEq, Eq)]
pub struct CallTree {
    pub names: Vec<String>,
    pub level: Vec<u32>,
    pub name: Vec<u32>,
    pub samples: Vec<Vec<i64>>,
    pub microseconds: Vec<Vec<i64>>,
    /// The node that each stack ends at; -1 if no side has it.
    pub node: Vec<i32>,
    /// Nodes there were, and how many of them were dropped.
    pub whole: usize,
    pub dropped: usize,
}

mod cost_tables;
pub use cost_tables::{Automaton, Rows};

#[cfg(test)]
mod tests;
