"""Whole replays on real private clusters: few jobs, few nodes, and everything that must hold."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tiresias.errors import TiresiasError
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.replay.replay import Replay
from tiresias.sandbox.replay.setup import Options
from tiresias.simulator.trace import read_trace

TRACE = """job_id,submit_time,num_gpus,duration,user,vc,model,status
long,0,4,900,,,vgg19,
wide,30,8,600,,,resnet50,
a,60,1,60,,,alexnet,
b,70,2,60,,,googlenet,
c,80,4,60,,,inception4,
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.csv"
    file.write_text(TRACE)
    return file


def clusters_of(pid: int) -> list[str]:
    """Those that a replay with this process id brought up and that still run."""
    return [cluster.spec.name for cluster in Cluster.all() if cluster.spec.name.endswith(f"-{pid}")]


def tiresias(*words: str | Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tiresias", "sandbox", "replay", *map(str, words)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
    assert not clusters_of(process.pid), "it left clusters"
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def replay(trace: Path, policies: str, *words: str | Path) -> dict[str, Any]:
    out = trace.with_suffix(".json")
    done = tiresias(trace, "--policy", policies, "--nodes", "2", "--time-scale", "60", "--json", out, *words)
    assert done.returncode == 0, done.stderr
    assert "mean JCT" in done.stdout
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def holds(outcome: dict[str, Any]) -> bool:
    faults = ("lost", "run_twice", "steps_redone", "killed_runs", "curves_differ")
    return outcome["jobs"] == 5 and not any(outcome["invariants"][name] for name in faults)


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.long
def test_stock_slurm(trace: Path, tmp_path: Path) -> None:
    result = replay(trace, "slurm-fifo,slurm-backfill", "--sacct", tmp_path / "known")
    for outcome in result["policies"].values():
        assert holds(outcome), outcome
        assert outcome["preemptions"] == 0
        assert outcome["invariants"]["slurm_runs"] == outcome["invariants"]["runs"] == 5
    assert result["baseline"] == "slurm-fifo"
    assert result["ratios"]["slurm-backfill"]["mean_jct"] > 0
    jobs = read_trace(tmp_path / "known/slurm-backfill.txt", 8).jobs()
    assert sorted(job.num_gpus for job in jobs) == [1, 2, 4, 4, 8]
    wide = max(jobs, key=lambda job: job.num_gpus)
    assert wide.duration == pytest.approx(600 / 60, abs=5), "sacct's whole seconds, and what a start takes"


@pytest.mark.sandbox
@pytest.mark.slow
def test_las_preempts_and_loses_nothing(trace: Path, tmp_path: Path) -> None:
    found = replay(trace, "las,adaptive+reports,slurm-fifo", "--sacct", tmp_path / "known")["policies"]
    outcome = found["las"]
    assert all(map(holds, found.values())), found
    assert (outcome["claims"], "claims" in found["slurm-fifo"]) == (0, False)
    assert 1 <= found["adaptive+reports"]["claims"] <= 5, "reports reach the journal by the control folder"
    assert 0.2 < outcome["simulated_to_measured"] < 1.5
    assert outcome["charged"]["start"] == pytest.approx(60 * outcome["latency"]["first_line"]["median"])
    assert "simulated_to_measured" not in found["slurm-fifo"], "Slurm chooses the nodes"
    assert outcome["over_slurm_fifo"] == pytest.approx(found["slurm-fifo"]["mean_jct"] / outcome["mean_jct"])
    assert outcome["preemptions"] > 0
    invariants = outcome["invariants"]
    assert invariants["runs"] == invariants["slurm_runs"] == 5 + outcome["preemptions"]
    assert invariants["ledger_missing"] == 0
    assert invariants["ledger_error"] <= 1.0
    jobs = read_trace(tmp_path / "known/las.txt", 8).jobs()
    assert {job.num_gpus: job.duration for job in jobs}[8] == pytest.approx(600 / 60, abs=5)
    rows = (tmp_path / "known/las.txt").read_text().splitlines()[1:]
    assert sum("." not in row.partition("|")[0] for row in rows) == invariants["runs"], "accounting has each run"


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.long
def test_mode_assist_keeps_the_order_of_fair_shares_and_qos(trace: Path) -> None:
    """Two accounts, jobs in the QOS urgent, a CPU-only and an unmanaged job."""
    trace.write_text(TRACE.replace("900,,", "900,ann,").replace("600,,", "600,ben,"))
    words = ("--shares", "3,1", "--urgent", "0.4", "--other-jobs", "0.2", "--seed", "1", "--no-placement-effect")
    found = replay(trace, "assist,slurm-qos-requeue", *words)["policies"]
    for outcome in found.values():
        assert outcome["jobs"] == 5
        assert outcome["invariants"]["lost"] == outcome["invariants"]["run_twice"] == 0
        assert min(outcome["cpu_only_wait"], outcome["unmanaged_wait"]) > 0
        assert outcome["unexplained"] == []
        assert outcome["invariants"]["starts_by_slurm"] >= 7, "the order is that of a log without starts"
    assert holds(found["assist"]), found["assist"]
    assert {one["account"] for one in found["assist"]["users"].values()} == {"group1", "group2"}


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_no_cluster(trace: Path, signal_number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tiresias", "sandbox", "replay", str(trace), "--policy", "las", "--nodes", "2"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert any("running" in line for line in process.stderr), "it ended before jobs ran"
        assert clusters_of(process.pid)
        process.send_signal(signal_number)
        assert process.wait(60) in (130, 143)
    assert not clusters_of(process.pid)


@pytest.mark.sandbox
def test_a_dead_controller_is_reported_and_its_log_is_kept(trace: Path) -> None:
    with Replay("las", read_trace(trace).jobs(), Options(nodes=2)) as replay:
        replay.kill_controller()
        with pytest.raises(TiresiasError, match="the controller ended with exit code") as raised:
            replay.over()
    log = replay.folder / "logs/controller"
    assert str(log) in str(raised.value)
    assert log.read_text()
    assert Cluster.remove_dead(replay.cluster.spec.name)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "lax"], "no policy 'lax'"),
        (["--policy", "las", "--nodes", "1"], "job wide asks for 8 GPUs and the cluster has 4"),
        (["--policy", "las", "--time-scale", "0"], "--time-scale is 0.0: it must be above 0"),
        (["--policy", "las", "--threshold", "x"], "--threshold 'x'"),
        (["--policy", "las", "--jobs", "-1"], "--jobs is -1"),
    ],
)
def test_mistakes_cost_one_line_and_no_cluster(trace: Path, words: list[str], message: str) -> None:
    done = tiresias(trace, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


TENANT_TRACE = """job_id,submit_time,num_gpus,duration,user,vc,model,status
a1,0,4,300,,vision,,
a2,1,4,300,,vision,,
b1,2,4,300,,speech,,
a3,120,2,60,,vision,,
b2,130,4,60,,speech,,
"""
TENANT_TABLES = """[[virtual_cluster]]
name = "vision"
cells = [{ level = "node", count = 1 }]

[[virtual_cluster]]
name = "speech"
cells = [{ level = "node", count = 1 }]
"""
TENANT_POLICIES = "slurm-private,slurm-fairshare,slurm-grptres,las+private_clusters,las+virtual_clusters"


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.ci
def test_tenants_share_a_cluster_as_slurm_and_as_the_controller_has_it(trace: Path, tmp_path: Path) -> None:
    """vision submits two jobs of a node each and owns one; the two nodes hold three jobs of the beginning."""
    trace.write_text(TENANT_TRACE)
    (tmp_path / "vcs.toml").write_text(TENANT_TABLES)
    words = ("--nodes-per-leaf", "1", "--fewest-nodes")
    result = replay(trace, TENANT_POLICIES, "--virtual-clusters", tmp_path / "vcs.toml", *words)
    found = result["policies"]
    assert all(map(holds, found.values())), found
    for name, outcome in found.items():
        assert {tenant: row["jobs"] for tenant, row in outcome["tenants"].items()} == {"vision": 3, "speech": 2}, name
    for name in ("slurm-private", "slurm-grptres", "las+private_clusters"):
        waited = found[name]["tenants"]["vision"]["p99_queueing"]
        assert waited > 150, f"{name}: its second job waits for the first one, for 300 s"
    assert found["slurm-private"]["preemptions"] == found["slurm-fairshare"]["preemptions"] == 0
    assert set(result["longer_than_private"]) == {"slurm-fairshare", "slurm-grptres", "las+virtual_clusters"}
