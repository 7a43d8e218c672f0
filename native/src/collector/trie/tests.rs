use super::*;
use crate::collector::columns::Texts;

/// A column of stacks with a dictionary of its own.
struct Column {
    offsets: Vec<i32>,
    codes: Vec<i32>,
    ends: Vec<i32>,
    text: String,
}

fn column(stacks: &[&str]) -> Column {
    let mut words: Vec<&str> = Vec::new();
    let mut made = Column { offsets: vec![0], codes: vec![], ends: vec![0], text: String::new() };
    for stack in stacks {
        for frame in stack.split(';').filter(|frame| !frame.is_empty()) {
            let at = words.iter().position(|&word| word == frame).unwrap_or(words.len());
            if at == words.len() {
                words.push(frame);
                made.text.push_str(frame);
                made.ends.push(made.text.len() as i32);
            }
            made.codes.push(at as i32);
        }
        made.offsets.push(made.codes.len() as i32);
    }
    made
}

impl Column {
    fn lists(&self) -> Lists<'_> {
        let words = Texts { offsets: &self.ends, bytes: self.text.as_bytes() };
        Lists { offsets: &self.offsets, codes: &self.codes, words }
    }
}

fn pool(stacks: &[&str], lines: bool) -> Pool {
    let mut pool = Pool::new("(missing)", lines);
    let rows: Vec<i32> = (0..stacks.len() as i32).collect();
    pool.take(column(stacks).lists(), &rows).unwrap();
    pool
}

/// A tree as text: name and samples of each side, indented by level.
fn outline(drawn: &CallTree) -> String {
    let line = |node: usize| {
        let self_samples: Vec<String> = drawn.samples.iter().map(|side| side[node].to_string()).collect();
        let indent = " ".repeat(drawn.level[node] as usize);
        format!("{indent}{} {}", drawn.names[drawn.name[node] as usize], self_samples.join(" "))
    };
    (0..drawn.level.len()).map(line).collect::<Vec<_>>().join("\n")
}

fn draw(pool: &mut Pool, samples: &[(i32, i64)], most: usize) -> CallTree {
    let (stacks, samples): (Vec<i32>, Vec<i64>) = samples.iter().copied().unzip();
    let periods = vec![1000; stacks.len()];
    let side = Side { stacks: &stacks, samples: &samples, periods: &periods };
    pool.draw(&[side], most).unwrap().unwrap()
}

#[test]
fn children_stand_in_the_order_of_their_text() {
    let mut pool = pool(&["main;b;x", "main;a", "main", "", "z"], true);
    let drawn = draw(&mut pool, &[(1, 1), (2, 2), (3, 4), (4, 8), (0, 16), (1, 32)], 99);
    assert_eq!(outline(&drawn), "total 8\n (missing) 16\n main 4\n  a 2\n  b 0\n   x 33");
    assert_eq!(drawn.names, ["total", "(missing)", "main", "a", "b", "x"]);
    assert_eq!(drawn.microseconds, [[8, 16, 4, 2, 0, 33]]);
    assert_eq!((drawn.whole, drawn.dropped), (6, 0));
}

#[test]
fn no_stacks_are_a_root() {
    assert_eq!(outline(&draw(&mut pool(&[], true), &[], 1)), "total 0");
}

#[test]
fn lines_are_folded_away_only_if_asked() {
    let stacks = ["f (a.py:3);g (a.py:4)", "f (a.py:30);g (a.py)"];
    let both = [(1, 1), (2, 2)];
    assert_eq!(outline(&draw(&mut pool(&stacks, false), &both, 99)), "total 0\n f (a.py) 0\n  g (a.py) 3");
    assert_eq!(draw(&mut pool(&stacks, true), &both, 99).whole, 5);
    for (text, folded) in
        [("f:3)", Some("f)")), ("a:1):2)", Some("a:1))")), (":)", None), ("3)", None), (")", None)]
    {
        let mut words = Words::new();
        let number = words.number_without_line(text);
        assert_eq!(words.get(number), folded.unwrap_or(text), "{text}");
        assert_eq!(words.number(folded.unwrap_or(text)), number);
    }
}

#[test]
fn two_sides_share_their_paths_whatever_dictionary_they_came_with() {
    let mut pool = pool(&["main;a", "main;b"], true);
    pool.take(column(&["b", "main;b;c", "main;a"]).lists(), &[1, 2]).unwrap();
    let one = Side { stacks: &[1, 2], samples: &[1, 2], periods: &[10, 10] };
    let two = Side { stacks: &[3, 4], samples: &[4, 8], periods: &[20, 20] };
    let drawn = pool.draw(&[one, two], 99).unwrap().unwrap();
    assert_eq!(outline(&drawn), "total 0 0\n main 0 0\n  a 1 8\n  b 2 0\n   c 0 4");
}

#[test]
fn what_is_dropped_is_one_other_child_of_what_it_hung_from() {
    let mut pool = pool(&["main;a;x", "main;b;y", "main;c", "w", "(other)"], true);
    let drawn = draw(&mut pool, &[(1, 1), (2, 10), (3, 2), (4, 3), (5, 20)], 5);
    assert_eq!(outline(&drawn), "total 0\n (other) 20\n main 0\n  (other) 3\n  b 0\n   y 10\n (other) 3");
    assert_eq!((drawn.whole, drawn.dropped), (9, 4));
    assert_eq!(drawn.names, ["total", "(other)", "main", "b", "y"]);
    assert_eq!(outline(&draw(&mut pool, &[(1, 1), (2, 10)], 1)), "total 0\n (other) 11");
}

#[test]
fn a_frame_costs_what_ends_in_it_and_once_what_it_is_in() {
    let pool = pool(&["f;g;f", "f", "g;h", "never"], true);
    let one = Side { stacks: &[1, 2, 2], samples: &[1, 2, 4], periods: &[10, 10, 20] };
    let two = Side { stacks: &[3], samples: &[8], periods: &[1] };
    let costs = pool.costs(&[one, two]).unwrap().unwrap();
    let cost = |self_samples, total_samples, self_ns, total_ns| Cost {
        self_samples,
        total_samples,
        self_ns,
        total_ns,
    };
    let none = Cost::default();
    assert_eq!(
        costs,
        [
            ("f".to_owned(), vec![cost(7, 7, 110, 110), none]),
            ("g".to_owned(), vec![cost(0, 1, 0, 10), cost(0, 8, 0, 8)]),
            ("h".to_owned(), vec![none, cost(8, 8, 8, 8)]),
        ]
    );
    assert_eq!(
        pool.costs(&[Side { samples: &[i64::MAX], ..two }, two]).map(|costs| costs.is_some()),
        Ok(true)
    );
    assert_eq!(pool.costs(&[Side { samples: &[i64::MAX], periods: &[2], ..two }]), Ok(None));
    assert_eq!(pool.costs(&[Side { stacks: &[9], ..two }]), Err(MismatchedColumns));
}

#[test]
fn a_stack_of_a_hundred_thousand_frames_is_a_path() {
    let deep = "f;".repeat(100_000);
    let mut pool = pool(&[&deep, "f"], true);
    let drawn = draw(&mut pool, &[(1, 1), (2, 2)], 1_000_000);
    assert_eq!((drawn.whole, drawn.level[100_000], drawn.samples[0][100_000]), (100_001, 100_000, 1));
    assert_eq!(draw(&mut pool, &[(1, 1), (2, 2)], 10).level.len(), 11);
}

#[test]
fn what_does_not_fit_is_not_drawn() {
    let mut pool = pool(&["a", "b"], true);
    let half = i64::MAX / 2;
    for (samples, periods, fits) in [
        ([half, half], [1, 1], true),
        ([half, half + 1], [1, 1], true),
        ([half + 1, half + 1], [1, 1], false),
        ([half, 1], [2, 1], true),
        ([half, 1], [2, 2], false),
        ([half, half], [3, 0], false),
    ] {
        let side = Side { stacks: &[1, 2], samples: &samples, periods: &periods };
        assert_eq!(pool.draw(&[side], 9).unwrap().is_some(), fits, "{samples:?} {periods:?}");
    }
}

#[test]
fn columns_that_do_not_fit_each_other_are_refused() {
    let good = column(&["a;b", "b"]);
    let lists = good.lists();
    let mut pool = Pool::new("?", true);
    for row in [-1, 2, i32::MAX] {
        assert_eq!(pool.take(lists, &[row]), Err(MismatchedColumns), "{row}");
    }
    let texts = Texts { offsets: &[0, 1, 9], bytes: b"ab" };
    for broken in [
        Lists { codes: &[0, 1], ..lists },
        Lists { codes: &[0, -1, 1], ..lists },
        Lists { codes: &[0, 2, 1], ..lists },
        Lists { offsets: &[2, 0, 3], ..lists },
        Lists { words: texts, ..lists },
        Lists { words: Texts { offsets: &[0, 1, 2], bytes: b"a\xff" }, ..lists },
    ] {
        assert_eq!(Pool::new("?", true).take(broken, &[0, 1]), Err(MismatchedColumns));
    }
    let side = Side { stacks: &[0], samples: &[1], periods: &[1] };
    let mut draw = |side: Side<'_>| pool.draw(&[side], 9).map(|_| ());
    assert_eq!(draw(side), Ok(()));
    assert_eq!(draw(Side { stacks: &[-1], ..side }), Err(MismatchedColumns));
    assert_eq!(draw(Side { stacks: &[99], ..side }), Err(MismatchedColumns));
    assert_eq!(draw(Side { samples: &[-1], ..side }), Err(MismatchedColumns));
    assert_eq!(draw(Side { samples: &[1, 2], ..side }), Err(MismatchedColumns));
}

#[test]
fn shares_are_rounded_once() {
    let big = (1u64 << 63) - 1;
    assert_eq!(share(1, 3), 1.0 / 3.0);
    assert_eq!(share(big, big), 1.0);
    assert_eq!(share(0, big), 0.0);
    assert_eq!(share(1, 1 << 62), 2f64.powi(-62));
    // Taken apart as floating point numbers first, these two would give 1.
    assert_eq!(share(big - 1024, big), 1.0 - 2f64.powi(-53));
    // As Python says 6917529027641081854 / 9223372036854775807 and 123456789012345678 / 9000000000000000001.
    assert_eq!(share(6_917_529_027_641_081_854, big), 0.75);
    assert_eq!(share(123_456_789_012_345_678, 9_000_000_000_000_000_001), PYTHON);
}

const PYTHON: f64 = 0.013717421001371742;

#[test]
fn microseconds_are_rounded_with_halves_to_even() {
    for (ns, us) in
        [(0, 0), (499, 0), (500, 0), (501, 1), (1500, 2), (2500, 2), (2501, 3), (i64::MAX, 9223372036854776)]
    {
        assert_eq!(microseconds(ns), us, "{ns}");
    }
}

#[test]
fn stacks_that_come_after_a_tree_are_in_its_order_too() {
    let frames = ["b", "a", "c (x.py:2)", "", "ab"];
    let text = |at: usize| {
        let chosen = [at % 5, at / 5 % 5, at / 25 % 5, at / 125].map(|at| frames[at % 5]);
        chosen[..at % 4 + 1].join(";")
    };
    let stacks: Vec<String> = (0..250).map(|at| text(at * 7)).collect();
    let stacks: Vec<&str> = stacks.iter().map(String::as_str).collect();
    let samples: Vec<(i32, i64)> = (0..251).map(|at| (at, i64::from(at) + 1)).collect();
    let (first, rest) = stacks.split_at(90);
    let mut grown = pool(first, true);
    draw(&mut grown, &samples[..91], 999);
    let rows: Vec<i32> = (0..rest.len() as i32).collect();
    grown.take(column(rest).lists(), &rows).unwrap();
    let tree = draw(&mut grown, &samples, 999);
    assert_eq!(outline(&tree), outline(&draw(&mut pool(&stacks, true), &samples, 999)));
    for node in 1..tree.level.len() {
        let sibling = (1..node).rev().find(|&other| tree.level[other] <= tree.level[node]);
        let Some(sibling) = sibling.filter(|&other| tree.level[other] == tree.level[node]) else { continue };
        assert!(tree.names[tree.name[sibling] as usize] < tree.names[tree.name[node] as usize]);
    }
}
