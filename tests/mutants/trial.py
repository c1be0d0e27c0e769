"""Runs tests in forked children, on a copy of the repository in which one file at a time is mutated.

The parent has imported everything that is not under test, so a child begins in milliseconds. Test processes that tests start
import the same copy.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coverage
import hypothesis  # noqa: F401  # imported once, before the forks
import numpy as np  # noqa: F401
import pytest

SKIPPED = (".git", ".venv", "build", "dist", "demo-out", "__pycache__", ".hypothesis", ".*_cache")
SELECTED = "not sandbox and not slow"
TIMES = 5.0  # a mutant that takes so many times the time of its tests, and SECONDS, is counted as a timeout
SECONDS = 20.0
BROKEN = (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED, 70)


@dataclass(slots=True)
class Baseline:
    """What the unmutated code does.

    Attributes:
        seconds: Duration of each test by node id.
        tests: Node ids by file and line that they execute. Line 0 stands for the file as a whole.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    tests: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))


class Copy:
    """A copy of the repository that may be damaged."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self.root = folder / "copy"
        shutil.copytree(repository, self.root, symlinks=True, ignore=shutil.ignore_patterns(*SKIPPED))
        self._written = int(time.time())

    @contextlib.contextmanager
    def mutated(self, path: str, text: str) -> Iterator[None]:
        """Python recognises a compiled file by its source's time, so the mutant gets one of its own."""
        file = self.root / path
        before, times = file.read_bytes(), file.stat()
        self._written += 1
        file.write_text(text)
        os.utime(file, (self._written, self._written))
        try:
            yield
        finally:
            file.write_bytes(before)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


class Measured:
    """A pytest plugin: what each test executes, and for how long."""

    def __init__(self, root: Path) -> None:
        self._root, self.found = root, Baseline()
        self._coverage = coverage.Coverage(data_file=None, source=[str(root)], config_file=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began = time.monotonic()
        self._coverage.erase()
        self._coverage.start()
        try:
            return (yield)
        finally:
            self._coverage.stop()
            self.found.seconds[item.nodeid] = time.monotonic() - began
            self._note(item.nodeid)

    def _note(self, test: str) -> None:
        data = self._coverage.get_data()
        for name in data.measured_files():
            path = str(Path(name).resolve().relative_to(self._root.resolve()))
            for line in (0, *(data.lines(name) or ())):
                self.found.tests[path, line].add(test)


class Only:
    """A pytest plugin: these tests alone, the fastest first."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = seconds

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._seconds), key=lambda item: self._seconds[item.nodeid]
        )


def baseline(copy: Copy, tests: Sequence[str]) -> Baseline:
    """Raises RuntimeError where the unmutated code fails."""
    file = copy.root.parent / "baseline"

    def measure() -> int:
        plugin = Measured(copy.root)
        code = _pytest([*tests, "-m", SELECTED], [plugin])
        plugin.found.tests = dict(plugin.found.tests)
        file.write_bytes(pickle.dumps(plugin.found))
        return code

    if code := _forked(copy, measure, 1200.0, compiles=True):
        raise RuntimeError(f"the tests fail without any mutation ({code}): {' '.join(tests)}")
    found: Baseline = pickle.loads(file.read_bytes())
    return found


def outcome(copy: Copy, seconds: Mapping[str, float]) -> str:
    """killed, survived or timeout. seconds: the tests to run, with their durations."""
    files = sorted({test.partition("::")[0] for test in seconds})
    limit = TIMES * sum(seconds.values()) + SECONDS
    code = _forked(copy, lambda: _pytest(["-x", *files], [Only(seconds)]), limit)
    if code in BROKEN:
        raise RuntimeError(f"no verdict, exit code {code}: {(copy.root.parent / 'log').read_text()[-2000:]}")
    return {0: "survived", None: "timeout"}.get(code, "killed")


def _pytest(arguments: list[str], plugins: list[Any]) -> int:
    options = ["-q", "-p", "no:cacheprovider", "--timeout=120", "--hypothesis-seed=0"]
    return int(pytest.main([*options, *arguments], plugins=plugins))


def _forked(copy: Copy, do: Callable[[], int], limit: float, compiles: bool = False) -> int | None:
    """The exit code of `do` in a child; None where it took longer than `limit`."""
    child = os.fork()
    if not child:
        os._exit(_in_child(copy, do, compiles))
    end = time.monotonic() + limit
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            _kill_group(child)
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            _kill_group(child)
            os.waitpid(child, 0)
            return None
        time.sleep(0.02)


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _in_child(copy: Copy, do: Callable[[], int], compiles: bool) -> int:
    os.setsid()
    log = os.open(copy.root.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.chdir(copy.root)
    os.environ |= {"PYTHONPATH": str(copy.root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path.insert(0, str(copy.root / "src"))
    sys.dont_write_bytecode = not compiles
    try:
        return do()
    except BaseException:
        import traceback

        traceback.print_exc()
        return 70
