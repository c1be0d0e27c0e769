"""The parameter servers of docs/examples/elastic_servers.py report their own work: the slow one is found, and no equal one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.checkpoint.adapters.test_examples import EXAMPLES, MODULES
from tests.checkpoint.adapters.test_rank_waits import STRAGGLING
from tests.lazily import imported
from tiresias.protocol import control, rank_files
from tiresias.protocol.rank_files import RankWork
from tiresias.scheduler.estimates.stragglers import slow_servers

torch = imported("torch")
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.xdist_group("examples-torch"), pytest.mark.timeout(600)]

WORKERS, SERVERS, EQUAL_S, SLOW_S = 2, 3, 0.1, 0.5


class ServedJob:
    """Workers and servers on this machine. slow: the number of the slow server; -1: none."""

    def __init__(self, root: Path, nursery: Any, port: int, slow: int) -> None:
        self.root, self._log = root, root / "log"
        folder = control.job_folder(root, os.getuid(), "7")
        control.make(folder, "")
        command = [str(STRAGGLING), str(slow), str(EQUAL_S), str(SLOW_S), str(EXAMPLES / "elastic_servers.py")]
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TIRESIAS_"))} | {
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORKERS": str(WORKERS), "TIRESIAS_SERVERS": str(SERVERS),
            "TIRESIAS_CONTROL": str(folder), "TIRESIAS_CHECKPOINT_DIR": str(root / "saved"), "TIRESIAS_SIGNAL": "USR2",
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        self.processes = [
            nursery.start([*command, role], root, env | _task(number, size), self._log)
            for role, size in (("server", SERVERS), ("worker", WORKERS))
            for number in range(size)
        ]

    def reports(self) -> list[RankWork]:
        """Wait until all servers have reported."""
        deadline = time.monotonic() + 120.0
        while len(found := rank_files.work_of_ranks(self.root, os.getuid(), "7", 0, control.SERVERS)) < SERVERS:
            assert all(process.poll() is None for process in self.processes), self._log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"{found}\n{self._log.read_text()[-3000:]}"
            time.sleep(0.1)
        return found


def _task(number: int, size: int) -> dict[str, str]:
    """Return the variables of a task; SLURMD_NODENAME names it, as all run on one host."""
    return {
        "RANK": str(number), "WORLD_SIZE": str(size), "LOCAL_RANK": str(number), "LOCAL_WORLD_SIZE": str(size),
        "SLURM_PROCID": str(number), "SLURMD_NODENAME": f"node{number}",
    }  # fmt: skip


@pytest.fixture(params=[1, -1], ids=["one slow server", "equal servers"])
def served(request: pytest.FixtureRequest, tmp_path: Path, nursery_of: Any) -> Iterator[tuple[int, ServedJob]]:
    port = 20000 + os.getpid() % 10000
    job = ServedJob(tmp_path, nursery_of(*MODULES["torch"]), port, request.param)
    yield request.param, job
    for process in job.processes:
        os.killpg(process.pid, 9)


def test_a_slow_server_is_found_and_an_equal_one_is_not(served: tuple[int, ServedJob]) -> None:
    slow, job = served
    found = job.reports()
    assert min(one.own for one in found) >= EQUAL_S
    assert all(one.own < one.whole for one in found)
    result = slow_servers(np.array([one.own for one in found]), np.array([one.whole for one in found]))
    names = [found[row].node for row in np.flatnonzero(result.slow)]
    assert names == ([] if slow < 0 else [f"node{slow}"]), found
    assert rank_files.registered(job.root, os.getuid(), "7") == WORKERS
