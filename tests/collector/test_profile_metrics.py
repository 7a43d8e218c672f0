"""Metrics from profiles: rules in a file, their values, and their text for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sidelight.settings import BadSetting
from sidelight_collector.metrics import Metrics
from sidelight_collector.profile_metrics.exposition import GroupResult, format_groups
from sidelight_collector.profile_metrics.rule_evaluator import ProfileMetrics
from sidelight_collector.profile_metrics.rule_file import load_rule_file, parse_rules
from sidelight_collector.profile_metrics.rule_values import evaluate_rules
from sidelight_collector.profile_metrics.rules import RuleGroup, RuleResult
from sidelight_collector.query.engine.query_engine import Answer, QueryEngine
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.matchers import parse_re2_selector
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.selectors import Selector
from sidelight_model.window import Quality
from tests.collector.stored_windows import START_NS, asked, stored, window

MINUTE_NS = 60 * 10**9
FLASK = "main (app.py:1);Flask.dispatch_request (flask/app.py:9)"
CART, PAY = f"{FLASK};cart (shop.py:3)", f"{FLASK};pay (shop.py:8)"
SHOP = 'selector: service="shop"'
DUMPS = "dumps (json/__init__.py:1)"
STACKS = (
    f"{CART};{DUMPS} 600 | {CART};{DUMPS};iterencode (json/encoder.py:9) 1200 | {PAY} 300 | {PAY};[idle] 900"
)


def write(rule: str, **group: object) -> tuple[RuleGroup, ...]:
    """A file with one group and one rule, whose keys are separated by ` / `."""
    keys = "".join(f"\n    {key}" for key in rule.split(" / "))
    of_group = "".join(f"\n  {key}: {value}" for key, value in group.items())
    return parse_rules(f"groups:\n- name: shop{of_group}\n  rules:\n  -{keys}\n")


def evaluate(store: ObjectStore, rule: str, required: str = "") -> RuleResult:
    """The series of a rule in the minute of the windows."""
    [group] = write(rule)
    selector = parse_re2_selector(required)
    [result] = asked(
        store,
        lambda reading: evaluate_rules(reading, group.rules, START_NS, START_NS + MINUTE_NS, selector),
    )
    return result


def values(store: ObjectStore, rule: str, required: str = "") -> dict[str, float]:
    """The values of a rule by their labels."""
    return {
        ",".join(f"{name}={value}" for name, value in one.labels): round(one.value, 6)
        for one in evaluate(store, rule, required).series
    }


def shop() -> ObjectStore:
    """A minute of two services; 600 samples of 10 ms in it are a tenth of a core."""
    return stored(
        [window(STACKS, seconds=60), window(f"{CART} 600", seconds=60, version="2", pod="pod-2")],
        [
            window(
                "work (cron.py:1) 3000", seconds=30, service="cron", version="", pod="pod-3", namespace="jobs"
            )
        ],
    )


def test_values_are_mean_cores_over_the_whole_interval() -> None:
    store = shop()
    for rule, expected in {
        "type: cpu": {"": 0.95},
        "by: [service]": {"service=cron": 0.5, "service=shop": 0.45},
        f"by: [service, version] / {SHOP}": {
            "service=shop,version=1": 0.35,
            "service=shop,version=2": 0.1,
        },
        "by: [namespace] / labels: {team: a}": {"namespace=jobs,team=a": 0.5, "team=a": 0.45},
        r"function: json\.dumps / by: [version]": {"version=1": 0.3, "version=2": 0.0, "": 0.0},
        r"function: json\.dumps / cost: self": {"": 0.1},
        rf"function: dumps \(json/__init__\.py\) / {SHOP}": {"": 0.3},
        "function: no_such": {"": 0.0},
        r"function: json\..* / by: [function, service]": {
            "file=json/__init__.py,function=dumps,service=shop": 0.3,
            "file=json/encoder.py,function=iterencode,service=shop": 0.2,
        },
        "by: [function] / cost: self / limit: 2": {
            "file=cron.py,function=work": 0.5,
            "file=json/encoder.py,function=iterencode": 0.2,
        },
        "package: json / by: [service]": {"service=cron": 0.0, "service=shop": 0.3},
        "package: flask|json / by: [package]": {"package=flask": 0.45, "package=json": 0.3},
        f"by: [package] / cost: self / {SHOP}": {
            "package=json": 0.3,
            "package=shop": 0.15,
        },
        r"endpoint: cart.* / by: [version]": {"version=1": 0.3, "version=2": 0.1, "": 0.0},
        f"by: [endpoint] / {SHOP}": {
            "endpoint=cart (shop.py)": 0.4,
            "endpoint=pay (shop.py)": 0.05,
        },
        r"function: json\.dumps / by: [endpoint]": {"endpoint=cart (shop.py)": 0.3},
    }.items():
        assert values(store, f"record: x_cores / {rule}") == expected, rule


def test_states_and_other_types_are_in_threads() -> None:
    store = shop()
    for rule, expected in {
        f"type: wall / {SHOP}": {"": 0.6},
        "type: wall / state: idle / by: [version]": {"version=1": 0.15, "version=2": 0.0, "": 0.0},
        f"type: wall / by: [state] / {SHOP}": {"state=idle": 0.15, "state=running": 0.45},
        "type: wall / state: idle / by: [endpoint]": {"endpoint=pay (shop.py)": 0.15},
    }.items():
        assert values(store, f"record: x_threads / {rule}") == expected, rule


def test_gaps_in_sampling_are_filled_and_unknown_states_are_absent() -> None:
    half = Quality(attempts=6000, errors={"timeout": 3000})
    blind = Quality(attempts=6000, missing_states=("gil", "idle"))
    store = stored(
        [
            window("f (a.py:1) 300", seconds=60, quality=half),
            window("f (a.py:1) 600", seconds=60, quality=blind, service="other", pod="pod-2"),
        ]
    )
    assert values(store, "record: x_cores / by: [service]") == {"service=shop": 0.1, "service=other": 0.1}
    assert values(store, "record: x_threads / type: wall / by: [service]") == {"service=shop": 0.1}
    assert values(store, "record: x_cores / type: gil / by: [service]") == {"service=shop": 0.0}


def test_a_reader_gets_the_values_of_its_namespaces() -> None:
    assert values(shop(), "record: x_cores / by: [service]", 'namespace="jobs"') == {"service=cron": 0.5}
    assert values(shop(), "record: x_cores", 'namespace="none"') == {}


def test_the_largest_series_remain_and_the_others_are_counted() -> None:
    [group] = write("record: x_cores / by: [service] / limit: 1")
    result = evaluate(shop(), "record: x_cores / by: [service] / limit: 1")
    assert ([one.labels for one in result.series], result.dropped) == ([(("service", "cron"),)], 1)
    same = evaluate(shop(), "record: x_cores / by: [service, namespace, version]")
    other = RuleGroup("broken", group.rules)
    written = format_groups(
        [GroupResult(group, MINUTE_NS, [result, same]), GroupResult(other, MINUTE_NS, None)], 2
    )
    assert written.dropped == {"x_cores": 3}
    assert written.text.splitlines()[:4] == [
        "# HELP x_cores Cores (profile type cpu), mean over the last complete 300 s.",
        "# TYPE x_cores gauge",
        'x_cores{service="cron"} 0.5',
        'x_cores{namespace="jobs",service="cron"} 0.5',
    ]
    for line in (
        'sidelight_profile_rule_dropped_series{record="x_cores"} 3',
        'sidelight_profile_rule_interval_end_timestamp_seconds{group="shop"} 60',
        'sidelight_profile_rule_group_failed{group="shop"} 0',
        'sidelight_profile_rule_group_failed{group="broken"} 1',
    ):
        assert line in written.text.splitlines()


def test_the_last_complete_interval_ends_before_the_offset() -> None:
    [group] = write("record: x_cores", interval="5m", query_offset="90s")
    for now, end in ((390, 300), (389, 0), (900, 600)):
        assert group.find_interval(now * 10**9) == ((end - 300) * 10**9, end * 10**9)


def test_errors_in_the_file_name_the_rule_and_what_is_wrong(tmp_path: Path) -> None:
    rule = "record: x_cores"
    for text, error in {
        "type: heap": "group 'shop', rule 1 (x_cores): type must be one of cpu, wall, gil, gil_wait",
        "type: wall": "values of type wall are in threads: end the name with _threads",
        "colour: red": "unknown key 'colour'",
        "function: '('": "function is not a regular expression",
        "selector: '{service=}'": "rule 1 (x_cores): ",
        "by: [function, package]": "use one of function, package, endpoint",
        "function: a / package: b": "use one of function, package, endpoint",
        "by: [a, a]": "by must be a list of at most 10 different labels",
        "by: ['a-b']": "by has 'a-b', which is not the name of a label",
        "by: [a] / labels: {a: b}": "a is in by and in labels",
        "labels: {a: 1}": "the label a must be text",
        "limit: 100000": "limit must be a whole number from 1 to 1000",
        "state: idle": "state matches none of type cpu: running, gil",
        "cost: self": "cost needs function or package",
        "by: [a] / by: [b]": "the key 'by' is repeated",
    }.items():
        with pytest.raises(ValueError) as failure:
            write(f"{rule} / {text}")
        assert error in str(failure.value), text
    for name in ("sidelight_x_cores", "a:b_cores", "9_cores"):
        with pytest.raises(ValueError, match="rule 1"):
            write(f"record: '{name}'")
    with pytest.raises(ValueError, match="two rules record x_cores"):
        write("record: x_cores\n  - record: x_cores")
    with pytest.raises(ValueError, match="interval must be at least 60s"):
        write(rule, interval="30s")
    (tmp_path / "rules.yaml").write_text("groups: [")
    with pytest.raises(BadSetting, match="not YAML"):
        load_rule_file(tmp_path / "rules.yaml")


async def test_scrapes_of_one_interval_share_one_evaluation() -> None:
    metrics, now = Metrics(), [START_NS + 120 * 10**9]
    groups = write("record: x_cores / by: [service]", interval="1m")
    with closing(QueryEngine(shop(), QueryLimits(timeout_seconds=300))) as engine:
        served = ProfileMetrics(engine, groups, 10, metrics, lambda: now[0])

        async def scrape(required: str = "") -> tuple[str, float]:
            text = await served.render(parse_re2_selector(required))
            count = metrics.registry.get_sample_value(
                "sidelight_profile_rule_evaluations_total", {"outcome": "computed"}
            )
            return text, count or 0

        texts = {text for text, _ in await asyncio.gather(*(scrape() for _ in range(5)))}
        assert len(texts) == 1
        assert 'x_cores{service="cron"} 0.5' in texts.pop()
        assert (await scrape())[1] == 1
        other, count = await scrape('namespace="jobs"')
        assert "shop" not in other.replace('group="shop"', "")
        assert count == 2
        now[0] += MINUTE_NS
        text, count = await scrape()
        assert "x_cores{" not in text
        assert count == 3
        assert not served.use(groups)
        assert served.use(write("record: y_cores"))
        assert "y_cores" in (await scrape())[0]


class FailingOnce(QueryEngine):
    """An engine whose first query fails."""

    failed = False

    async def run(self, compute: Callable[[QueryContext], Answer]) -> Answer:
        if not self.failed:
            self.failed = True
            raise QueryTimeout(30)
        return await super().run(compute)


async def test_a_group_that_failed_is_evaluated_again_at_the_next_scrape() -> None:
    metrics = Metrics()
    with closing(FailingOnce(shop(), QueryLimits(timeout_seconds=300))) as engine:
        groups = write("record: x_cores", interval="1m")
        served = ProfileMetrics(engine, groups, 10, metrics, lambda: START_NS + 120 * 10**9)
        texts = [await served.render(Selector()) for _ in range(2)]
    assert ["\nx_cores 0.95\n" in text for text in texts] == [False, True]
    assert ['group_failed{group="shop"} 1' in text for text in texts] == [True, False]
    outcomes = ("failed", "computed")
    counted = [
        metrics.registry.get_sample_value("sidelight_profile_rule_evaluations_total", {"outcome": one})
        for one in outcomes
    ]
    assert counted == [1, 1]
