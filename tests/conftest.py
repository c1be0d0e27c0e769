"""Private clusters for tests, started once per session and shared.

    def test_x(cluster): ...                       a forky cluster (Slurm 26.05 + pyslurm), 4 nodes x 4 GPUs
    def test_y(cluster_of): cluster_of("trixie")   the same on another suite, or with other options of ClusterSpec

Tests that share a cluster leave no job running: these fixtures cancel what a test left.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import installed
from tiresias.errors import TiresiasError
from tiresias.sandbox import host
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec

TESTS = Path(__file__).parent

ClusterOf = Callable[..., Cluster]
UNTIL_CANCEL_S = 2.0  # for which running jobs are only killed

# A shell that runs the tests in the background has them ignore SIGINT, nohup SIGHUP, and so would every program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Benchmarks measure speed; a test that is slow on a busy machine has not failed.
settings.register_profile("all", deadline=None)
settings.register_profile("not long", deadline=None, max_examples=40)


def pytest_configure(config: pytest.Config) -> None:
    """Without the long tests, those with generated inputs take fewer, where they state no number themselves."""
    settings.load_profile("not long" if _excludes_long(config) else "all")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Several workers: tests of a file share clusters and follow one another, those that are `apart` go anywhere, and those
    that name a group of their own follow the others of that. Groups that take long come first, so that quick ones fill the end."""
    for item in items:
        if not (item.get_closest_marker("apart") or item.get_closest_marker("xdist_group")):
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(TESTS).with_suffix(""))))
    yield  # tests of other tiers are deselected
    seconds: defaultdict[str, float] = defaultdict(float)
    for item in items:
        seconds[_group(item)] += _estimated_s(item)
    items.sort(key=lambda item: (-seconds[_group(item)], _group(item)))


def _excludes_long(config: pytest.Config) -> bool:
    return "not long" in str(config.getoption("markexpr"))


def _group(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    return str(marker.args[0] if marker else item.nodeid)


def _estimated_s(item: pytest.Item) -> float:
    """The estimated duration of a test in seconds; only the order depends on it."""
    if item.get_closest_marker("slow"):
        return 20.0
    return 5.0 if needs_cluster(item) else 0.1


def pytest_collection_finish(session: pytest.Session) -> None:
    """xdist reads the group of a test from the end of its name. Without them every worker would start every cluster."""
    if getattr(session.config.option, "loadgroup", False):
        lost = [item for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        assert not lost, f"xdist did not add the group of {lost[0].nodeid}: which pytest is this?"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A worker of xdist sends reports in UTF-8: a lone surrogate in a logged text would be an internal error."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


def needs_cluster(item: pytest.Item) -> bool:
    """Whether a test starts a private cluster or uses one."""
    fixtures = item.fixturenames if isinstance(item, pytest.Function) else []
    return bool(item.get_closest_marker("sandbox") or {"all_clusters", "centre_of"} & set(fixtures))


@functools.cache
def missing_for_clusters() -> str:
    """Return what this machine lacks for a private cluster: programs or rights; empty if nothing."""
    try:
        host.require_tools()
        host.user_namespace()
    except TiresiasError as error:
        return str(error)
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if needs_cluster(item) and missing_for_clusters():
        pytest.skip(missing_for_clusters())


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built once for all workers."""
    base = tmp_path_factory.getbasetemp()
    return installed.build_once(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


@pytest.fixture(scope="session")
def all_clusters() -> Iterator[ClusterOf]:
    """Starts each cluster that is asked for at its first use; all go down when the session ends."""
    running: dict[str, Cluster] = {}

    def get(suite: str = "forky", **options: Any) -> Cluster:
        key = f"{suite}{sorted(options.items())}"
        if key not in running:
            name = f"test-{os.getpid()}-{len(running)}"
            running[key] = Cluster.up(
                ClusterSpec(**{"name": name, "suite": suite, "nodes": 4, **options}), report=print
            )
        return running[key]

    yield get
    for cluster in running.values():
        cluster.down()


@pytest.fixture
def cluster_of(all_clusters: ClusterOf) -> Iterator[ClusterOf]:
    used: list[Cluster] = []

    def get(suite: str = "forky", **options: Any) -> Cluster:
        used.append(all_clusters(suite, **options))
        return used[-1]

    yield get
    for cluster in used:
        _cancel_all(cluster)


@pytest.fixture
def cluster(cluster_of: ClusterOf) -> Cluster:
    return cluster_of()


def _cancel_all(cluster: Cluster) -> None:
    """Repeated, since a job that is being requeued is pending after the first cancel. Running jobs are ended by SIGKILL: of a job
    that is cancelled while its first step begins, Slurm waits KillWait seconds for the end. An allocation without a step is
    cancelled after that."""
    began = time.monotonic()
    while left := cluster.run(["squeue", "-h", "-o", "%A"]).stdout.split():
        passed = time.monotonic() - began
        assert passed < 60, f"jobs of the last test do not end: {left}"
        cluster.run(["scancel", "--quiet", "--state=PENDING", *left], check=False)
        cluster.run(["scancel", "--quiet", "--signal=KILL", "--full", *left], check=False)
        if passed > UNTIL_CANCEL_S:
            cluster.run(["scancel", "--quiet", *left], check=False)
        time.sleep(0.1)
