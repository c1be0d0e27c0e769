"""The published dictionary of tests/example_status.py, and a control socket that answers with it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.example_cells import example_cells
from tests.example_status import example_status
from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.sockets.control_socket import ControlServer
from tiresias.slurm_plugin.sockets.peer import Peer

SUMS = {"runs": 7.0, "preemptions": 2.0, "waited": 60.5, "saving": 4.0, "restoring": 8.0, "redone": 1.5}
MORE = {
    "leader": {"host": "ctl1", "pid": 1, "epoch": 3, "since": 0.0, "standby": True}, "tiresias": "0.1",
    "cycle": {"count": 1843, "seconds": 0.041, "period": 30.0, "median": 0.04, "p99": 0.2, "snapshot": 0.03},
    "actions": {"start": 7, "preempt": 2}, "paused": None,
    "totals": [{"partition": "gpu", "account": name} | SUMS for name in ("bio", "chem")],
    "packlimit": {"limit": 0.4, "learned": False, "jobs": 0, "error": None, "why": "too few"},
    "rpc": {"burst": 30.0, "rate": 2.0, "spent": 9, "calls": {"hold": 4}, "per_minute": 6.0, "postponed": 1,
            "slurmctld": {"threads": 2, "queue": 0, "database_queue": 0, "calls": 9, "mean_ms": 0.4}},
}  # fmt: skip


@pytest.fixture
def status() -> dict[str, Any]:
    return example_status()


@pytest.fixture
def whole(status: dict[str, Any]) -> dict[str, Any]:
    """With all that a controller publishes."""
    for job in status["jobs"]:
        job["state"] = "RUNNING" if job["nodes"] else "WAITING"
    clusters = [
        {key: value for key, value in each.items() if key != "cells"} for each in example_cells()["virtual_clusters"]
    ]
    return status | MORE | {"virtual_clusters": clusters}


@pytest.fixture
def server(status: dict[str, Any], tmp_path: Path) -> Iterator[ControlServer]:
    status["time"] = time.time()

    def answer(request: dict[str, Any], peer: Peer) -> dict[str, Any]:
        if request["op"] == "status":
            return dict(status)
        found = [job for job in status["jobs"] if job["id"] == request["job"]]
        if not found:
            raise TiresiasError(f"job {request['job']}: not known here")
        run = {"restart": 0, "start": status["time"] - 900, "end": 0, "nodes": ["gpu13"], "gpus": 4}
        return {"job": found[0], "runs": [run], "decisions": status["decisions"]}

    with ControlServer(tmp_path / "control.sock", answer) as running:
        yield running
