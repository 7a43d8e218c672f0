"""Hypothesis profiles, tiers, what runs beside what, and the logs of a failed test.

`dev` is a quick answer at the desk, `ci` the same answer on every run.

A test has one of three tiers. `fast` is pure code and fakes: it starts no process (a hook checks that).
`long` is an experiment of minutes to hours, marked by hand. What is neither uses real processes, servers or a
browser. `pytest -m fast` and `pytest -m long` choose one tier; without `-m` all but `long` run.

With several workers (`pytest -n`, as in `make test`) each file runs on one of them, beside others. Some tests
measure time, or sample processes that are to have a CPU to themselves: they run at the end, one by one. Those
that need a cluster with a node (`tests/cluster/*node*`) have one worker, so that there is one such cluster.
"""

import fcntl
import os
import re
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.processes import ROOT, wait_for_builds

# How long an example takes depends on what else the machine does.
timeless: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=30, **timeless)
settings.register_profile("ci", derandomize=True, print_blob=True, **timeless)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

ALONE = (
    "tests/cli/demo/test_demo.py",
    "tests/e2e/test_full_path.py::test_the_shares",
    "tests/e2e/test_verdicts.py",
    "tests/harm/",
    "tests/native/test_cpu_wait.py",
    "tests/native/test_gil_wait.py",
    "tests/native/test_shares.py",
    "tests/native/test_stacks.py",
    "tests/native/test_wait_reasons.py",
    "tests/native/test_windows.py",
    "tests/services/test_services.py",
    "tests/truth/test_truth.py",
)
"""Tests that measure time or shares of it: one after another, after all others and after every build."""

PROCESSES = (
    "tests/bench/",
    "tests/cluster/",
    "tests/collector/test_cluster_client.py",
    "tests/collector/test_compare.py",
    "tests/collector/test_deploys_alerts.py",
    "tests/collector/test_doctor_command.py",
    "tests/collector/test_engine_failures.py",
    "tests/collector/test_export.py",
    "tests/collector/test_exports.py",
    "tests/collector/test_hung_workers.py",
    "tests/collector/test_ingest_process.py",
    "tests/collector/test_kernel.py",
    "tests/collector/test_profile_files.py",
    "tests/collector/test_profile_metrics_scrape.py::test_prometheus",
    "tests/collector/test_otlp_clients.py",
    "tests/collector/test_pyroscope_clients.py",
    "tests/collector/test_pyroscope_programs.py",
    "tests/collector/test_prometheus_requests.py",
    "tests/collector/test_ray_daft.py",
    "tests/collector/test_store_directory.py",
    "tests/collector/test_store_disk.py",
    "tests/collector/test_workers.py",
    "tests/cli/compare/test_ci_docs.py",
    "tests/cli/compare/test_compare_collector.py",
    "tests/cli/compare/test_files.py",
    "tests/cli/compare/test_speedscope.py",
    "tests/cli/compare/test_polling.py",
    "tests/cli/demo/",
    "tests/cli/import_files/test_import_tools.py",
    "tests/deploy/",
    "tests/e2e/",
    "tests/harm/",
    "tests/cli/local/",
    "tests/cli/test_notes_command.py::test_notes",
    "tests/mutation/test_mutation.py::test_the_simulation",
    "tests/native/",
    "tests/pictures/",
    "tests/test_loop_watchdog.py",
    "tests/test_full_disk.py::test_a_full_disk",
    "tests/services/test_endpoints.py",
    "tests/sidecar/test_cgroup.py",
    "tests/sidecar/test_following.py",
    "tests/sidecar/test_guard.py",
    "tests/sidecar/test_malloc_tuning.py",
    "tests/sidecar/test_in_container.py",
    "tests/sidecar/test_capture_poller.py",
    "tests/sidecar/test_procfs.py",
    "tests/sidecar/test_sampling.py",
    "tests/sidecar/test_spool_safety.py::test_a_volume",
    "tests/model/test_pprof.py",
    "tests/tools/test_documentation.py::test_the_documentation_site",
    "tests/truth/",
    "tests/statistics/test_event_loop.py",
    "tests/web/",
)
"""Folders and files of tests that start processes, as do tests with one of the fixtures below."""

PROCESS_FIXTURES = {"clickhouse", "s3_server", "sidecar_json", "start", "start_sidecar"}

HEAVY = (
    "tests/collector/test_api_caching.py::test_whatever_happens_in_the_store",
    "tests/collector/test_api_fuzz.py",
    "tests/collector/test_checksums.py::test_a_file_without_a_checksum_is_one_of_an_older_version",
    "tests/collector/test_checksums.py::test_any_bit_that_changes_is_noticed",
    "tests/collector/test_client_limits.py::test_the_estimate_is_above_the_memory_that_parsing_takes",
    "tests/collector/test_compaction.py::test_two_at_once",
    "tests/collector/test_compaction.py::test_whatever_goes_wrong_at_any_step",
    "tests/collector/test_decompress.py::test_a_bomb_costs_no_more_memory_than_the_limit_and_a_step",
    "tests/collector/test_doctor.py::test_no_bit_of_a_table_changes_unseen",
    "tests/collector/test_doctor_repair.py::test_a_block_that_a_collector_compacts_meanwhile_is_left_to_it",
    "tests/collector/test_doctor_repair.py::test_a_repair_that_dies_at_any_step",
    "tests/collector/test_doctor_repair.py::test_what_is_added_up_is_restored",
    "tests/collector/test_doctor_repair.py::test_what_is_mended",
    "tests/collector/test_lease.py::test_a_store_that_fails",
    "tests/collector/test_lease.py::test_two_compactors_that_race_make_every_block_once",
    "tests/collector/test_loop_lag.py::test_the_largest_",
    "tests/collector/test_parsing.py::test_the_kernel_refuses_what_the_reference_refuses_and_nothing_else",
    "tests/collector/test_query_blocks.py::test_no_answer_changes",
    "tests/collector/test_query_heatmap.py::test_a_window_is_in_the_hour",
    "tests/collector/test_query_live_objects.py::test_whatever_happens_what_is_remembered",
    "tests/collector/test_query_sums.py::test_a_cache_too_small_for_anything_changes_no_answer",
    "tests/collector/test_query_sums.py::test_any_grouping_into_segments_with_duplicates_gives_the_sum",
    "tests/collector/test_read_rules_api.py::test_no_path_tells_a_reader_of_other_namespaces",
    "tests/collector/test_reader_isolation.py::test_another_namespace_changes_no_answer_of_a_reader",
    "tests/collector/test_service_cuts.py::test_cut_blocks_have_every_window_once_and_answer",
    "tests/collector/test_stack_filter.py::test_a_band_of_depths_is_what_its_stacks_add_up_to",
    "tests/collector/test_store_faults.py",
    "tests/collector/test_store_segments.py::test_a_segment_of_more_stacks",
)
"""Tests that start no process and take five seconds of CPU and more: the tier `fast` goes without them."""

QUICK_PROGRAMS = ("cargo", "git", "make")
"""Programs that a test of the tier `fast` may ask about this checkout."""

BUILT = ("tests/cluster/", "tests/collector/", "tests/deploy/", "tests/injector/")
"""Tests that need programs which `make test` builds beside the first tests."""

FAILED = ROOT / ".tools" / "failed"
LOG_LINES = 40


class FilesSideBySide(LoadScopeScheduling):
    """A file at a time for each worker; a node's are one piece of work, and those that run alone the last."""

    def _split_scope(self, nodeid: str) -> str:
        if _on_node(nodeid):
            return "node"
        return "alone" if nodeid.startswith(ALONE) else nodeid.partition("::")[0]

    def remove_node(self, node: WorkerController) -> str | None:
        """A test that ended its worker, as one does that hangs, has failed and is not run again."""
        for unit in self.assigned_work[node].values():
            for nodeid, done in unit.items():
                if not done:
                    unit[nodeid] = True
                    super().remove_node(node)
                    return nodeid
        return super().remove_node(node)


def _on_node(nodeid: str) -> bool:
    file = nodeid.partition("::")[0]
    return file.startswith("tests/cluster/") and "node" in file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FilesSideBySide:
    config.option.loadscopereorder = False
    return FilesSideBySide(config, log)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their parameter: compressed ones may hold a time, and then workers collect other ids."""
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tier `fast`, and set the order.

    Those that run alone are the last. What starts processes is the first, so that small tests fill up what
    workers are left with; among these, what needs programs that may still be built comes later.
    """
    for item in items:
        if not (item.get_closest_marker("long") or item.nodeid.startswith(HEAVY) or _starts_processes(item)):
            item.add_marker(pytest.mark.fast)
    items.sort(
        key=lambda item: (
            item.nodeid.startswith(ALONE),
            not _on_node(item.nodeid),
            item.get_closest_marker("fast") is not None,
            item.nodeid.startswith(BUILT),
        )
    )


def _starts_processes(item: pytest.Item) -> bool:
    if item.nodeid.startswith((*PROCESSES, *ALONE)):
        return True
    parameters = getattr(item, "callspec", None)
    on_s3 = parameters is not None and "s3" in parameters.params.values()
    return on_s3 or not PROCESS_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_configure(config: pytest.Config) -> None:
    # A shell ignores SIGINT in background jobs, and nohup ignores SIGHUP: programs under test inherit both.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if config.getoption("-m") == "fast":
        sys.addaudithook(_no_process)


def _no_process(event: str, arguments: tuple[object, ...]) -> None:
    """Fail a test of the tier `fast` that starts a process; Python's documentation lists the audit events."""
    if event not in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty"):
        return
    program = arguments[0] if arguments else ""
    if "PYTEST_CURRENT_TEST" in os.environ and program not in QUICK_PROGRAMS:
        pytest.fail(f"this test starts {program or 'a process'}: name it in PROCESSES of tests/conftest.py")


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """Undo the logging of a program that ran inside the test: its standard error is closed afterwards."""
    yield
    structlog.reset_defaults()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Whoever runs alone waits for the other workers, and they for it: a lock on the folder of the run."""
    alone = item.nodeid.startswith(ALONE)
    if alone:
        wait_for_builds()
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return (yield)
    folder = os.open(Path(item.config.getoption("basetemp")).parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        return (yield)
    finally:
        fcntl.flock(folder, fcntl.LOCK_UN)
        os.close(folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the logs of the processes that ran while a test failed, and show how each ends."""
    report = yield
    if not report.failed:
        return report
    temporary: Path = item.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    kept = FAILED / re.sub(r"[^\w.-]+", "_", item.nodeid)[:150]
    for log in sorted(temporary.rglob("*.log")):
        if log.is_symlink() or not log.is_file() or log.stat().st_mtime < call.start:
            continue
        target = kept / log.relative_to(temporary)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, target)
        tail = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        report.sections.append((f"the end of {target.relative_to(ROOT)}", "\n".join(tail)))
    return report
