"""The command on a real Slurm: what is wrong there and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import ClusterOf

pytestmark = pytest.mark.sandbox


def look(cluster: Any, *, user: str, state: str = "/tmp/doctor/state") -> tuple[int, dict[str, dict[str, str]]]:
    shared = cluster.shared / "tiresias"
    for folder in (shared, shared / "control", shared / "checkpoints"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)
    config = cluster.shared / "doctor.toml"
    paths = {name: f"/shared/tiresias/{name}" for name in ("control", "checkpoints")}
    paths |= {"state": state, "run": "/tmp/doctor/run"}
    config.write_text("[paths]\n" + "\n".join(f'{name} = "{path}"' for name, path in paths.items()))
    done = cluster.run(["tiresias", "doctor", "--config", "/shared/doctor.toml", "--json"], user=user, check=False)
    assert done.stdout, done.stderr
    return done.returncode, {found["about"]: found for found in json.loads(done.stdout)}


def test_a_cluster_that_only_lacks_accounting(cluster_of: ClusterOf) -> None:
    code, found = look(cluster_of("forky"), user="slurm")
    assert code == 0, found
    assert found["accounting"]["level"] == "advice"
    assert found["rights"]["level"] == "advice", "SlurmUser may do more than it needs"
    assert found["Slurm"]["words"].endswith("by pyslurm")
    for about in (
        "clock",
        "partitions",
        "SelectType",
        "GresTypes",
        "disable_job_shrink",
        "control folders",
        "checkpoints",
    ):
        assert found[about]["level"] == "fine", found[about]


@pytest.mark.long
def test_nodes_report_what_they_have(cluster_of: ClusterOf) -> None:
    words = ["srun", "--nodes=2", "--ntasks-per-node=1", "tiresias", "doctor", "--node"]
    lines = cluster_of("forky").run(words, user="alice", timeout=60).stdout.splitlines()
    reasons = "DMTCP cannot be used: dmtcp_launch is not in PATH; CRIU cannot be used: criu is not in PATH"
    swap = "cannot be used: no /dev/fuse: the kernel has no FUSE, or this is a container without it; "
    for node in ("gpu01", "gpu02"):
        assert f"advice: image tools: {node}: {reasons}" in lines
        assert sum(line.startswith(f"advice: swap of a job: {node}: {swap}") for line in lines) == 1
        region = f"advice: regions of programs: {node}: this user's programs can"
        assert sum(line.startswith(region) for line in lines) == 1
    assert len(lines) == 6


def test_a_user_without_rights_sees_the_command_that_grants_them(cluster_of: ClusterOf) -> None:
    code, found = look(cluster_of("forky"), user="alice", state="/var/lib/nobody/tiresias")
    assert code == 1
    assert found["the journal"]["level"] == "blocks"
    assert "not writable for uid" in found["the journal"]["words"]
    assert found["rights"]["level"] == "blocks"
    assert found["rights"]["remedy"] == "sacctmgr add user alice account=root adminlevel=operator"


def test_the_table_names_what_blocks_first(cluster_of: ClusterOf) -> None:
    cluster = cluster_of("forky")
    look(cluster, user="alice")
    shown = cluster.run(
        ["tiresias", "doctor", "--config", "/shared/doctor.toml"], user="alice", check=False, env={"COLUMNS": "120"}
    )
    assert shown.returncode == 1
    first = shown.stdout.splitlines()[1]
    assert first.startswith("blocks")
    assert "rights" in first
