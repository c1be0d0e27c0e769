"""The accounting of a real Slurm as a trace, and the GPUs of its nodes."""

from __future__ import annotations

import json

import pytest

from tests.conftest import ClusterOf
from tiresias.sandbox.cluster import Cluster

pytestmark = pytest.mark.sandbox


def test_whatif_reads_the_cluster_at_hand(cluster_of: ClusterOf) -> None:
    cluster = cluster_of("forky", accounting=True)
    submit = [
        "sbatch",
        "--parsable",
        "--wait",
        "--gpus=2",
        "--ntasks=2",
        "--gpus-per-task=1",
        "--output=/dev/null",
        "--wrap",
        "sleep 1",
    ]
    jobs = [cluster.run(submit, user="alice", cwd="/tmp").stdout.strip() for _ in range(2)]
    cluster.run(["sbatch", "--parsable", "--wait", "--output=/dev/null", "--wrap", "true"], user="alice", cwd="/tmp")
    words = ["tiresias", "whatif", "--since", "now-1hour", "--policy", "las", "--json", "/shared/whatif.json"]
    done = cluster.run(words, user="slurm", check=False, env={"COLUMNS": "100"})
    assert done.returncode == 0, done.stderr
    found = json.loads((cluster.shared / "whatif.json").read_text())
    assert (found["nodes"], found["gpus_per_node"]) == (4, 4)
    assert found["jobs"] >= len(jobs)
    assert found["groups"]["GPUs"]["2-3"]["jobs"] >= 2
    assert found["recorded"]["mean_jct"] >= 1
    assert {key: found["dropped"][0][key] for key in ("reason", "jobs")} == {"reason": "asks for no GPU", "jobs": 1}
    assert "times the mean JCT that accounting recorded" in " ".join(done.stdout.split())
    suggests_cells(cluster)


def suggests_cells(cluster: Cluster) -> None:
    """The jobs of the cluster's QOS are a tenant, and a node is enough for them."""
    words = ["tiresias", "vc", "suggest", "--since", "now-1hour", "--by", "qos", "--json", "/shared/vc.json"]
    done = cluster.run([*words, "--out", "/shared/vcs.toml"], user="slurm", check=False, env={"COLUMNS": "100"})
    assert done.returncode == 0, done.stderr
    tenants = json.loads((cluster.shared / "vc.json").read_text())["tenants"]
    assert tenants["normal"]["jobs"] >= 2
    assert tenants["normal"]["fitting"]["cells"] == [{"level": "node", "count": 1}]
    assert tenants["normal"]["past"]["mean"] >= 0
    words = ["tiresias", "whatif", "--since", "now-1hour", "--policy", "las", "--virtual-clusters", "/shared/vcs.toml"]
    done = cluster.run([*words, "--json", "/shared/whatif.json"], user="slurm", check=False, env={"COLUMNS": "100"})
    assert done.returncode == 0, done.stderr
    found = json.loads((cluster.shared / "whatif.json").read_text())
    assert found["virtual_clusters"]["normal"]["jobs"] == tenants["normal"]["jobs"]


def test_without_accounting_it_is_one_line(cluster_of: ClusterOf) -> None:
    done = cluster_of("forky").run(["tiresias", "tune"], user="alice", check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("tiresias: sacct: ")
    assert len(done.stderr.splitlines()) == 1
