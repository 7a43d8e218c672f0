use super::{read_header, sum_samples, PprofLimits, Refusal, Values, NO_FRAMES};
use crate::stacks::states::RUNNING;

const LIMITS: PprofLimits =
    PprofLimits { entries: 1000, text_bytes: 1000, stacks: 10, depth: 8, groups: 4, labels: 4 };

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn message(field: u64, content: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// A profile of functions `f` and `g` of one file, with samples of (locations, nanoseconds, endpoint).
fn profile(samples: &[(&[u64], u64, &str)]) -> Vec<u8> {
    let mut strings = vec!["", "cpu", "nanoseconds", "a.py", "f", "g", "endpoint"];
    let mut content = message(1, &[number(1, 1), number(2, 2)].concat());
    for &(locations, ns, endpoint) in samples {
        let ids: Vec<u8> = locations.iter().flat_map(|&id| varint(id)).collect();
        let mut sample = [message(1, &ids), message(2, &varint(ns))].concat();
        if !endpoint.is_empty() {
            strings.push(endpoint);
            sample.extend(message(3, &[number(1, 6), number(2, strings.len() as u64 - 1)].concat()));
        }
        content.extend(message(2, &sample));
    }
    for id in [1, 2] {
        let line = message(4, &[number(1, id), number(2, 10 * id)].concat());
        content.extend(message(4, &[number(1, id), line].concat()));
        content.extend(message(5, &[number(1, id), number(2, 3 + id), number(4, 3)].concat()));
    }
    content.extend(strings.iter().flat_map(|text| message(6, text.as_bytes())));
    content.extend([message(11, &[number(1, 1), number(2, 2)].concat()), number(12, 100)].concat());
    content
}

fn values(states: &[(usize, usize)]) -> Values<'_> {
    Values { states, whole: None, count: None, unit_ns: 1, period_ns: 100, dropped: &[] }
}

/// Labels and, for each stack, its text and running samples.
type Sums = Vec<(String, Vec<(String, i64)>)>;

fn sums(content: &[u8], limits: PprofLimits) -> Result<Sums, Refusal> {
    let summed = sum_samples(content, &values(&[(0, RUNNING)]), limits)?;
    let rows = summed.groups.iter().map(|group| {
        let labels = group.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut stacks: Vec<_> = group
            .rows
            .iter()
            .map(|row| (summed.texts[summed.stacks[row.0].1.clone()].to_owned(), row.1[RUNNING]))
            .collect();
        stacks.sort();
        (labels, stacks)
    });
    Ok(rows.collect())
}

#[test]
fn samples_are_summed_by_labels_and_stack() {
    let content = profile(&[
        (&[2, 1], 200, "/a"),
        (&[1], 100, "/b"),
        (&[2, 1], 300, "/a"),
        (&[], 100, ""),
        (&[1], 0, ""),
    ]);
    let header = read_header(&content, LIMITS).expect("it is whole");
    assert_eq!(header.value_types, [("cpu".to_owned(), "nanoseconds".to_owned())]);
    assert_eq!(header.period, 100);
    let stack = |text: &str, count| vec![(text.to_owned(), count)];
    assert_eq!(
        sums(&content, LIMITS),
        Ok(vec![
            (String::new(), stack(NO_FRAMES, 1)),
            ("endpoint=/a".to_owned(), stack("f (a.py:10);g (a.py:20)", 5)),
            ("endpoint=/b".to_owned(), stack("f (a.py:10)", 1)),
        ])
    );
}

#[test]
fn rounding_errors_are_carried_so_that_the_total_stays() {
    let content = profile(&[(&[1], 149, ""), (&[2], 149, ""), (&[2, 1], 149, "")]);
    let summed = sum_samples(&content, &values(&[(0, RUNNING)]), LIMITS).expect("it is whole");
    assert_eq!((summed.groups[0].samples, summed.period_ns), (4, 112));
}

#[test]
fn labels_with_too_many_values_are_dropped() {
    let names = ["/1", "/2", "/3", "/4", "/5"];
    let samples: Vec<(&[u64], u64, &str)> = names.iter().map(|name| (&[1][..], 100, *name)).collect();
    let summed = sum_samples(&profile(&samples), &values(&[(0, RUNNING)]), LIMITS).expect("it is whole");
    assert_eq!(summed.groups.len(), 1);
    assert_eq!(summed.dropped.into_iter().collect::<Vec<_>>(), ["endpoint"]);
}

#[test]
fn work_and_memory_are_bounded() {
    let content = profile(&[(&[1; 20], 100, ""), (&[2; 20], 100, "")]);
    let refused = |limits| sums(&content, limits).expect_err("it is beyond a limit");
    assert_eq!(refused(PprofLimits { text_bytes: 400, ..LIMITS }), Refusal::TooMuchText);
    assert_eq!(refused(PprofLimits { stacks: 1, ..LIMITS }), Refusal::TooManyStacks);
    assert_eq!(refused(PprofLimits { entries: 8, ..LIMITS }), Refusal::TooManyEntries);
    assert_eq!(
        sums(&content, LIMITS).expect("it is within the limits")[0].1[0].0.split(';').nth(4),
        Some("(truncated)")
    );
}

#[test]
fn damaged_profiles_are_refused_wherever_they_are_cut() {
    let content = profile(&[(&[2, 1], 200, "/a"), (&[1, 2], 100, "/b")]);
    for length in 0..content.len() {
        let _ = sums(&content[..length], LIMITS);
    }
    assert_eq!(sums(&profile(&[(&[3], 1, "")]), LIMITS), Err(Refusal::Damaged("a location is missing")));
    assert_eq!(sums(&content[..content.len() - 8], LIMITS).map(|_| ()), Ok(()));
}
