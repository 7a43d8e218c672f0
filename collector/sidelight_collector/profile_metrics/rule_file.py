"""The YAML file of rules, as Prometheus' files of recording rules.

    groups:
      - name: shop
        interval: 5m
        rules:
          - record: shop_json_cores
            selector: '{service=~"shop.*"}'
            function: json\\..*
            by: [service, version]

A key that is unknown, repeated or of another type is an error, as everything that Prometheus would refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from sidelight.settings import BadSetting
from sidelight_collector.profile_metrics.rules import (
    DEFAULT_INTERVAL_SECONDS,
    DEFAULT_LIMIT,
    DEFAULT_OFFSET_SECONDS,
    ENDPOINT,
    FUNCTION,
    PACKAGE,
    STACK_LABELS,
    STATE,
    MetricRule,
    RuleGroup,
)
from sidelight_collector.query.select.matchers import (
    find_full_matches,
    make_pattern_check,
    parse_re2_selector,
)
from sidelight_model.counts import STATES_BY_TYPE, ProfileType
from sidelight_model.errors import SidelightError
from sidelight_model.selectors import ENDPOINT_LABEL, Matcher, Op, Selector

MAX_FILE_BYTES: Final = 256 << 10
MAX_RULES: Final = 100
MAX_LABELS: Final = 10
MAX_LIMIT: Final = 1000
MIN_INTERVAL_SECONDS: Final = 60
MAX_INTERVAL_SECONDS: Final = 3600
MAX_OFFSET_SECONDS: Final = 3600
RESERVED_PREFIX: Final = "sidelight_"
"""The prefix of the names of Sidelight's own metrics."""

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})(s|m|h)", re.ASCII)
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_COSTS: Final = ("total", "self")
_HINT: Final = "See docs/metrics.md, metrics from profiles."


def load_rule_file(path: Path) -> tuple[RuleGroup, ...]:
    """Load the groups of a file. Raises BadSetting with the rule that is invalid."""
    try:
        content = path.read_bytes()
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"it is longer than {MAX_FILE_BYTES} bytes")
        return parse_rules(content.decode("utf-8-sig"))
    except OSError as error:
        raise BadSetting(
            f"cannot read the rules in {path}: {error}", hint="Check --profile-metrics-file."
        ) from error
    except ValueError as error:
        raise BadSetting(f"cannot use the rules in {path}: {error}", hint=_HINT) from error


def parse_rules(text: str) -> tuple[RuleGroup, ...]:
    """Parse the text of a file. Raises ValueError that names the rule."""
    # Few collectors have rules, and the parser of YAML takes 30 ms to import.
    from sidelight_collector.profile_metrics.unique_key_yaml import load_yaml

    document = load_yaml(text)
    at = "the file"
    items = _read_list(_read_mapping(document, at, ("groups",)), "groups", at)
    groups = tuple(_parse_group(item, f"group {number}") for number, item in enumerate(items, 1))
    _check_together(groups)
    return groups


def _check_together(groups: Collection[RuleGroup]) -> None:
    names = [group.name for group in groups]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two groups have the name {repeated[0]!r}")
    rules = [rule for group in groups for rule in group.rules]
    if len(rules) > MAX_RULES:
        raise ValueError(f"{len(rules)} rules are more than {MAX_RULES}")
    identities = [(rule.record, rule.labels, sorted(rule.by)) for rule in rules]
    for at, identity in enumerate(identities):
        if identity in identities[:at]:
            raise ValueError(f"two rules record {identity[0]} with the same labels: add `labels` to one")


def _parse_group(item: object, at: str) -> RuleGroup:
    group = _read_mapping(item, at, ("name", "interval", "query_offset", "rules"))
    name = _read_text(group, "name", at, required=True)
    at = f"group {name!r}"
    interval = _read_duration(group, "interval", at, DEFAULT_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS)
    if interval < MIN_INTERVAL_SECONDS:
        raise ValueError(f"{at}: interval must be at least {MIN_INTERVAL_SECONDS}s")
    offset = _read_duration(group, "query_offset", at, DEFAULT_OFFSET_SECONDS, MAX_OFFSET_SECONDS)
    items = _read_list(group, "rules", at)
    rules = tuple(_parse_rule(one, f"{at}, rule {number}") for number, one in enumerate(items, 1))
    return RuleGroup(name, rules, interval, offset)


_RULE_KEYS: Final = (
    *("record", "type", "selector", FUNCTION, PACKAGE, ENDPOINT, STATE, "cost", "by", "labels", "limit"),
)


def _parse_rule(item: object, at: str) -> MetricRule:
    rule = _read_mapping(item, at, _RULE_KEYS)
    record = _read_text(rule, "record", at, required=True)
    at = f"{at} ({record[:80]})"
    kind = ProfileType(_read_choice(rule, "type", at, [ProfileType.CPU.value, *ProfileType]))
    check = make_pattern_check()
    patterns = {name: _read_pattern(rule, name, at, check) for name in (*STACK_LABELS, STATE)}
    try:
        selector = parse_re2_selector(_read_text(rule, "selector", at))
    except SidelightError as error:
        raise ValueError(f"{at}: {error.message}") from None
    if patterns[ENDPOINT]:
        selector = selector & Selector((Matcher(ENDPOINT_LABEL, Op.MATCHES, patterns[ENDPOINT]),))
    by, labels = _read_by(rule, at), _read_labels(rule, at)
    parsed = MetricRule(
        record,
        kind,
        selector,
        patterns[FUNCTION],
        patterns[PACKAGE],
        _match_states(patterns[STATE], kind, at),
        _read_choice(rule, "cost", at, _COSTS) == "self",
        by,
        labels,
        _read_limit(rule, at),
    )
    _check_name(parsed, at)
    _check_labels(parsed, at)
    if "cost" in rule and not parsed.frame_label:
        raise ValueError(f"{at}: cost needs function or package")
    return parsed


def _check_name(rule: MetricRule, at: str) -> None:
    name = rule.record
    if not _NAME.fullmatch(name):
        raise ValueError(f"{at}: record must have only letters, digits and _")
    if name.startswith(RESERVED_PREFIX):
        raise ValueError(f"{at}: {RESERVED_PREFIX} is the prefix of Sidelight's own metrics: use your own")
    if not name.endswith(f"_{rule.unit}"):
        raise ValueError(
            f"{at}: values of type {rule.profile_type} are in {rule.unit}: end the name with _{rule.unit}"
        )


def _check_labels(rule: MetricRule, at: str) -> None:
    stack_labels = [name for name in rule.by if name in STACK_LABELS]
    kinds = {*stack_labels, *filter(None, (rule.function and FUNCTION, rule.package and PACKAGE))} - {
        ENDPOINT
    }
    if len(kinds) > 1 or len(stack_labels) > 1:
        raise ValueError(f"{at}: use one of {', '.join(STACK_LABELS)}")
    names = {*rule.by, *(("file",) if FUNCTION in rule.by else ())}
    if both := names.intersection(name for name, _ in rule.labels):
        raise ValueError(f"{at}: {min(both)} is in by and in labels")
    if FUNCTION in rule.by and "file" in rule.by:
        raise ValueError(f"{at}: file comes with function: leave it out")


def _match_states(pattern: str, kind: ProfileType, at: str) -> tuple[str, ...]:
    states = tuple(STATES_BY_TYPE[kind])
    if not pattern:
        return states
    matches = find_full_matches(pattern, states)
    chosen = tuple(state for state, is_match in zip(states, matches, strict=True) if is_match)
    if not chosen:
        raise ValueError(f"{at}: state matches none of type {kind}: {', '.join(states)}")
    return chosen


def _read_mapping(item: object, at: str, keys: Collection[str]) -> Mapping[str, object]:
    if not isinstance(item, dict):
        raise ValueError(f"{at} must be a mapping with {', '.join(keys)}")
    for key in item:
        if key not in keys:
            raise ValueError(f"{at}: unknown key {str(key)[:80]!r}; there are {', '.join(keys)}")
    return item


def _read_list(mapping: Mapping[str, object], key: str, at: str) -> list[object]:
    items = mapping.get(key)
    if not isinstance(items, list) or not items:
        raise ValueError(f"{at}: {key} must be a list with at least one item")
    return items


def _read_text(mapping: Mapping[str, object], key: str, at: str, *, required: bool = False) -> str:
    text = mapping.get(key, "")
    if not isinstance(text, str) or (not text.strip() and (required or key in mapping)):
        raise ValueError(f"{at}: {key} must be text; put it in quotes")
    return text


def _read_pattern(mapping: Mapping[str, object], key: str, at: str, check: Callable[[str], None]) -> str:
    pattern = _read_text(mapping, key, at)
    try:
        check(pattern)
    except ValueError as error:
        raise ValueError(f"{at}: {key} is not a regular expression: {error}") from None
    return pattern


def _read_choice(mapping: Mapping[str, object], key: str, at: str, choices: Collection[str]) -> str:
    """Read one of `choices`; the first is the default."""
    choice = mapping.get(key, next(iter(choices)))
    if not isinstance(choice, str) or choice not in choices:
        raise ValueError(f"{at}: {key} must be one of {', '.join(dict.fromkeys(map(str, choices)))}")
    return choice


def _read_duration(mapping: Mapping[str, object], key: str, at: str, default: int, maximum: int) -> int:
    text = mapping.get(key, f"{default}s")
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    seconds = int(match[1]) * _UNIT_SECONDS[match[2]] if match else maximum + 1
    if seconds > maximum:
        raise ValueError(f"{at}: {key} must be a time such as 30s, 5m or 1h, at most {maximum}s")
    return seconds


def _read_by(mapping: Mapping[str, object], at: str) -> tuple[str, ...]:
    by = mapping.get("by", [])
    if not isinstance(by, list) or len(by) > MAX_LABELS or len(set(map(str, by))) < len(by):
        raise ValueError(f"{at}: by must be a list of at most {MAX_LABELS} different labels")
    for name in by:
        _check_label_name(name, "by", at)
    return tuple(by)


def _read_labels(mapping: Mapping[str, object], at: str) -> tuple[tuple[str, str], ...]:
    labels = mapping.get("labels", {})
    if not isinstance(labels, dict) or len(labels) > MAX_LABELS:
        raise ValueError(f"{at}: labels must be a mapping of at most {MAX_LABELS} labels")
    for name, value in labels.items():
        _check_label_name(name, "labels", at)
        if not isinstance(value, str):
            raise ValueError(f"{at}: the label {name} must be text; put it in quotes")
    return tuple(sorted(labels.items()))


def _check_label_name(name: object, key: str, at: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("__"):
        raise ValueError(f"{at}: {key} has {str(name)[:80]!r}, which is not the name of a label")


def _read_limit(mapping: Mapping[str, object], at: str) -> int:
    limit = mapping.get("limit", DEFAULT_LIMIT)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_LIMIT:
        raise ValueError(f"{at}: limit must be a whole number from 1 to {MAX_LIMIT}")
    return limit
