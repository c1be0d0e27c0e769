"""The accounting of a real Slurm as a trace, and the GPUs of its nodes."""

from __future__ import annotations

import json
import time

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


@pytest.mark.long
def test_another_cluster_of_the_same_slurmdbd(cluster_of: ClusterOf) -> None:
    """slurmctld runs as one cluster, then as another one: both are in the accounting, and the first has no slurmctld then."""
    cluster = cluster_of("forky", accounting=True, nodes=1)  # of its own: it has another name afterwards
    submit = ["sbatch", "--wait", "--gpus=1", "--output=/dev/null", "--wrap", "sleep 1"]
    for _ in range(2):
        cluster.run(submit, user="alice", cwd="/tmp")
    becomes_another(cluster, "second")
    for name in ("first", "second", "third"):
        cluster.run([*submit, f"--job-name={name}"], user="alice", cwd="/tmp")
    jobs = {
        name: gpu_jobs(cluster, "--cluster", name, "--nodes=1", "--gpus-per-node=4")
        for name in ("second", cluster.spec.name)
    }
    assert jobs == {"second": 3, cluster.spec.name: 2}
    assert gpu_jobs(cluster) == gpu_jobs(cluster, "--cluster", "second") == 3, "this slurmctld answers"
    for words, message in (
        (["--cluster", "absent"], "is cluster absent one of"),
        (["--cluster", "second;id"], "name one cluster"),
        (["--cluster", "second", "/dev/null"], "leave TRACE out"),
        (["--cluster", cluster.spec.name], "give its size by --nodes and --gpus-per-node"),
    ):
        done = cluster.run(["tiresias", "whatif", *words], user="slurm", check=False)
        assert (done.returncode in (1, 2), len(done.stderr.splitlines())) == (True, 1), done.stderr
        assert message in done.stderr


def becomes_another(cluster: Cluster, name: str) -> None:
    """Start slurmctld as another cluster, with the same nodes and the same slurmdbd."""
    of = f"cluster={name}"
    for words in (["cluster", name], ["account", "science", of], ["user", "alice", "account=science", of]):
        cluster.run(["sacctmgr", "-i", "add", *words])
    cluster.kill_slurmctld("TERM")
    cluster.run(["sed", "-i", f"s/^ClusterName=.*/ClusterName={name}/", "/etc/slurm/slurm.conf"])
    cluster.run(["sh", "-c", "rm -r /var/spool/slurm/ctld/*"])
    cluster.start_slurmctld()
    deadline = time.monotonic() + 60
    while set(cluster.node_states()) != {"idle"}:
        assert time.monotonic() < deadline, cluster.node_states()
        time.sleep(0.1)


def gpu_jobs(cluster: Cluster, *options: str) -> int:
    """Return the number of jobs that `whatif` reads."""
    words = ["tiresias", "whatif", "--since", "now-1hour", "--policy", "las", "--json", "/shared/whatif.json", *options]
    done = cluster.run(words, user="slurm", check=False)
    assert done.returncode == 0, done.stderr
    return int(json.loads((cluster.shared / "whatif.json").read_text())["jobs"])
