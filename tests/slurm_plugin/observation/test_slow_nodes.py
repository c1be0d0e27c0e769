"""Ranks that do more work than the others of their job, by what they report in a real control folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.protocol import control, rank_files
from tiresias.scheduler.estimates.stragglers import SlowNode
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob
from tiresias.slurm_plugin.observation.slow_nodes import POLL, SlowNodes

TIMED = 10.0
POLL_S = POLL * TIMED
Make = Callable[..., SlurmJob]


@pytest.fixture
def job(running: Make) -> SlurmJob:
    shares = tuple(NodeShare(f"gpu{at}", 1, 4, 400) for at in range(4))
    return replace(running(1000), uid=os.getuid(), shares=shares)


@pytest.fixture
def ranks(tmp_path: Path, job: SlurmJob) -> Path:
    folder = control.job_folder(tmp_path, job.uid, job.id)
    control.make(folder, "")
    return folder / control.RANKS


def report(ranks: Path, own: list[object], restart: int = 0, whole: object = None) -> None:
    for at, seconds in enumerate(own):
        content = {"rank": at, "restart": restart, "own": seconds, "whole": whole}
        (ranks / f"gpu{at}.site.org-{100 + at}-7").write_text(json.dumps(content))


def looked(root: Path, job: SlurmJob, looks: int = 2) -> dict[str, dict[str, SlowNode]]:
    slow = SlowNodes(root, TIMED)
    for at in range(looks):
        slow.poll(job, 2000.0 + POLL_S * at)
    return slow.found


def test_a_node_that_is_slow_twice_in_a_row_is_found(tmp_path: Path, ranks: Path, job: SlurmJob) -> None:
    report(ranks, [0.1, 0.1, 0.5, 0.1])
    assert looked(tmp_path, job, 1) == {}
    assert looked(tmp_path, job) == {"1": {"gpu2": pytest.approx((5.0, 5.0))}}


def test_a_slow_server_is_found_among_the_servers_where_the_workers_wait_for_it(
    tmp_path: Path, ranks: Path, job: SlurmJob
) -> None:
    servers = ranks.parent / control.SERVERS
    servers.mkdir()
    report(ranks, [0.9, 0.9])
    report(servers, [0.1, 0.1, 0.1, 0.5], whole=1.6)
    with_servers = replace(job, tasks=2, gpus=2, elastic="1-4+1-4*2")
    assert looked(tmp_path, with_servers) == {"1": {"gpu3": pytest.approx((5.0, 1.6 / 1.2))}}
    assert looked(tmp_path, replace(with_servers, elastic="1-4+1-2*2")) == {}
    report(servers, [0.1, 0.1, 0.1, 0.5], whole=16.0)
    assert looked(tmp_path, with_servers) == {}
    assert rank_files.registered(tmp_path, job.uid, job.id) == 2, "servers are no ranks"


def test_a_node_with_a_slow_rank_and_a_slow_server_counts_by_the_larger_numbers(
    tmp_path: Path, ranks: Path, job: SlurmJob
) -> None:
    servers = ranks.parent / control.SERVERS
    servers.mkdir()
    report(ranks, [0.3, 0.1, 0.1, 0.1])
    report(servers, [0.4, 0.1, 0.1], whole=0.8)
    assert looked(tmp_path, job) == {"1": {"gpu0": pytest.approx((4.0, 3.0))}}


def test_a_node_that_is_fast_again_is_forgotten(tmp_path: Path, ranks: Path, job: SlurmJob) -> None:
    slow = SlowNodes(tmp_path, TIMED)
    for at, own in enumerate([0.5, 0.5, 0.11, 0.5]):
        report(ranks, [0.1, own, 0.1, 0.1])
        slow.poll(job, 2000.0 + POLL_S * at)
        slow.poll(job, 2000.0 + POLL_S * at + 1.0)
        assert bool(slow.found) == (at == 1)
    slow.begin_cycle(())
    assert not slow.found


@pytest.mark.parametrize(
    "own", [["much", None, 0.1, 9.0], [1e300, 1e300, 0.1, 0.1], [-1, -1, 0.1, 9.0], [True, 1, 1, 1]]
)
def test_what_is_no_possible_time_is_not_known(tmp_path: Path, ranks: Path, job: SlurmJob, own: list[object]) -> None:
    report(ranks, own)
    assert looked(tmp_path, job) == {}


def test_reports_of_another_run_of_another_host_and_torn_ones_do_not_count(
    tmp_path: Path, ranks: Path, job: SlurmJob
) -> None:
    report(ranks, [0.1, 0.1, 0.5, 0.1], restart=3)
    assert looked(tmp_path, job) == {}
    report(ranks, [0.1, 0.1, 0.1, 0.1])
    (ranks / "other-1-7").write_text('{"rank": 9, "restart": 0, "own": 5.0}')
    (ranks / "gpu1-2-7").write_text('{"rank": 9, "restart"')
    assert looked(tmp_path, job) == {}
