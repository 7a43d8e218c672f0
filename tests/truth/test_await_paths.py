"""Times and stacks that sampled tasks are held against."""

import pytest

from tests.truth.diaries import TaskDiary
from tests.truth.legal import await_is_legal


def test_tasks_take_the_time_between_entering_and_leaving_of_each():
    diary = TaskDiary("tasks", {"a": [0, 10, 60], "b": [20]}, {"a": [20, 100], "b": [90]})
    spent = diary.spent(15, 70)
    assert {phase: time.wall for phase, time in spent.items()} == {"a": 5 + 55 + 10, "b": 50}


@pytest.mark.parametrize(
    ("stack", "legal"),
    [
        ("task_waiting handle fetch receive [future]", True),
        ("task_waiting handle fetch receive [queue]", False),
        ("task_waiting handle fetch [future]", False),
        ("task_waiting handle query receive [future]", False),
        ("task_ready handle fetch receive", True),
        ("task_ready handle", True),
        ("task_ready handle fetch", False),
        ("task_running handle fetch", True),
        ("task_running handle fetch BaseEventLoop.call_later", True),
        ("task_running handle receive", False),
        ("task_running handle fetch BaseEventLoop.call_later query", False),
        ("task_running BaseEventLoop.call_later", False),
    ],
)
def test_only_stacks_on_one_await_path_are_legal(stack, legal):
    assert await_is_legal(stack.split()) is legal
