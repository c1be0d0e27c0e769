"""A serving process that starts late: its prolog was killed, and the epilog has run before the process holds its lock."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.services.remote_memory.job_swap.swap_node import SwapNode, until

pytestmark = pytest.mark.xdist_group("job swap")  # devices are the machine's

JOB, REQUEST = "7002", "remote-mem=64M"
STOPS_ITSELF = """\
import os, pathlib, signal
if b"\\0serve\\0" in pathlib.Path("/proc/self/cmdline").read_bytes():
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture
def late_node(node: SwapNode, tmp_path: Path) -> SwapNode:
    """A node on which each serving process stops itself before its first import."""
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "sitecustomize.py").write_text(STOPS_ITSELF)
    node.slurm["PYTHONPATH"] = f"{tmp_path / 'late'}:{os.environ.get('PYTHONPATH', '')}"
    return node


@pytest.fixture
def late(late_node: SwapNode) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A prolog, and its stopped serving process."""
    prolog = late_node.start("prolog", JOB, REQUEST)
    server = until(lambda: stopped_child(prolog.pid), "the serving process stops itself")
    yield prolog, server
    with suppress(ProcessLookupError):
        os.kill(server, signal.SIGKILL)
    if prolog.poll() is None:
        prolog.kill()
        prolog.communicate()


def stopped_child(pid: int) -> int:
    """Return the pid of a stopped child; 0 without one."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return next((int(child) for child in children if state_of(int(child)) == "T"), 0)


def state_of(pid: int) -> str:
    """Return the state of a process as in /proc/PID/stat; "" of one that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def continue_to_its_end(server: int) -> None:
    os.kill(server, signal.SIGCONT)
    until(lambda: state_of(server) in ("", "Z"), "the serving process ends")


def test_it_makes_nothing_after_the_epilog(late_node: SwapNode, late: tuple[subprocess.Popen[str], int]) -> None:
    prolog, server = late
    prolog.kill()
    prolog.communicate()
    late_node.call("epilog", JOB)
    continue_to_its_end(server)
    assert late_node.left(JOB) == []


def test_it_ends_before_the_epilog(late_node: SwapNode, late: tuple[subprocess.Popen[str], int]) -> None:
    prolog, server = late
    prolog.kill()
    prolog.communicate()
    continue_to_its_end(server)
    assert {each for each in late_node.left(JOB) if not each.endswith((".log", ".lock"))} == set()
    late_node.call("epilog", JOB)
    assert late_node.left(JOB) == []


def test_a_prolog_that_lives_gets_its_swap(late_node: SwapNode, late: tuple[subprocess.Popen[str], int]) -> None:
    prolog, server = late
    os.kill(server, signal.SIGCONT)
    assert prolog.communicate(timeout=60)[1] == ""
    assert late_node.server(JOB) == server
    late_node.call("epilog", JOB)
    assert late_node.left(JOB) == []
