from __future__ import annotations

import pytest

from sidelight_sidecar.discovery.process_description import describe_process
from tests.cli.local.fake_engine import proc


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/usr/bin/python3.11", "/srv/shop/app.py", "--token", "s3cret"], "python3.11 app.py"),
        (["python3", "-u", "-X", "dev", "-m", "http.server", "8000"], "python3 -m http.server"),
        (["python3", "-c", "import secrets"], "python3 -c"),
        (["python3"], "python3"),
        (["python3", "-"], "python3 -"),
        (["/opt/venv/bin/uwsgi", "--ini", "x"], "uwsgi"),
        (["gunicorn: worker [shop]"], "gunicorn: worker [shop]"),
        (["/opt/app/serve --password=s3cret"], "serve"),
        (["[celeryd: celery@host] -active- (worker --broker=redis://:s3cret@h)"], "[celeryd: celery@host]"),
        (["worker of amqp://shop:s3cret@queue/orders"], "worker of amqp://shop:***@queue/orders"),
        (["run PGPASSWORD=s3cret psql"], "run"),
        (["gunicorn: worker [/srv/shop]"], "gunicorn: worker [/srv/shop]"),
        (["python3.12", "-mshop", "--token", "s3cret"], "python3.12 -m shop"),
        (["python3.12", "-cprint('s3cret')"], "python3.12 -c"),
        (["\x1b[31mred\x1b[0m\n"], r"\x1b[31mred\x1b[0m\n"),
        (["x" * 200], "x" * 79 + "…"),
    ],
)
def test_a_process_is_called_by_what_it_runs_and_never_by_its_arguments(words: list[str], name: str) -> None:
    assert describe_process(proc(1, 0, *words)) == name


def test_a_process_without_a_command_line_is_called_by_its_executable() -> None:
    silent = proc(7)
    assert describe_process(type(silent)(silent.key, 1, executable="/usr/bin/dash")) == "dash"
    assert describe_process(type(silent)(silent.key, 1)) == "?"
