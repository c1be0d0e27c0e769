"""Which back end "auto" finds, in a cluster as the daemon would."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ClusterOf
from tiresias.errors import UsageError
from tiresias.sandbox.cluster import Cluster
from tiresias.slurm_plugin.backends.select import open_backend

ASK = (
    "import sys; from tiresias.slurm_plugin.backends.select import open_backend; backend = open_backend(sys.argv[1]); "
    "print(backend.name, backend.version(), len(backend.snapshot().nodes), backend.why, sep='|'); backend.close()"
)


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("suite", "asked", "name", "why"),
    [
        ("forky", "auto", "pyslurm", "worker started"),
        ("forky", "commands", "commands", ""),
        ("trixie", "auto", "commands", "pyslurm"),
    ],
)
def test_the_back_end_that_serves(cluster_of: ClusterOf, suite: str, asked: str, name: str, why: str) -> None:
    cluster = cluster_of(suite)
    reported = cluster.run(["python3", "-c", ASK, asked], user="slurm").stdout.strip().split("|")
    assert reported[:3] == [name, cluster.slurm_version, "4"]
    assert why in reported[3]
    assert bool(reported[3]) == (asked == "auto")


@pytest.mark.sandbox
def test_pyslurm_by_name_where_it_cannot_be(cluster_of: ClusterOf) -> None:
    done = cluster_of("trixie").run(["python3", "-c", ASK, "pyslurm"], check=False)
    assert "SlurmUnavailable: pyslurm's process ended" in done.stderr


@pytest.mark.sandbox
def test_the_users_own_formats_and_filters_do_not_leak_in(cluster: Cluster) -> None:
    hostile = {
        "SQUEUE_FORMAT": "%j",
        "SQUEUE_STATES": "FAILED",
        "SQUEUE_USERS": "nobody",
        "SINFO_FORMAT": "%N",
        "SLURM_CLUSTERS": "x",
    }
    job = cluster.run(["sbatch", "--parsable", "--hold", "--chdir=/tmp", "--wrap=true"], user="alice").stdout.strip()
    script = ASK.replace("len(backend.snapshot().nodes)", f"backend.job('{job}').state")
    reported = cluster.run(["python3", "-c", script, "commands"], user="slurm", env=hostile).stdout.split("|")
    assert reported[2] == "PENDING"


def test_an_unknown_name() -> None:
    with pytest.raises(UsageError, match="choose one of auto, pyslurm, commands"):
        open_backend("rest")


def test_a_machine_without_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    from tiresias.slurm_plugin.backends.interface import SlurmUnavailable

    backend = open_backend("auto", deadline=5)
    assert backend.name == "commands"
    with pytest.raises(SlurmUnavailable, match="cannot run scontrol"):
        backend.snapshot()
