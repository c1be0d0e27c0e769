"""Donors under the leaf switch of a node, by what Slurm prints of its topology."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.remote_memory.donors import SERVICE_KEY
from tiresias.protocol.remote_memory_use import KEY, folder_of
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec
from tiresias.scheduler.slurm_topology import from_slurm
from tiresias.services.remote_memory.job_swap.leaf_donors import leaf_donors, near_donors_of
from tiresias.services.remote_memory.job_swap.swap_settings import SwapSettings, read_swap_settings

TREE = """SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=gpu[01-02]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=gpu[03-04]
SwitchName=core Level=1 LinkSpeed=1 Nodes=gpu[01-04] Switches=leaf1,leaf2
"""
DONORS = ("gpu01:7600", "gpu02.cluster.example:7600", "gpu03:7600", "10.0.0.4:7600", "[fe80::1]:7600", "store1:7600")


@pytest.mark.parametrize(
    ("node", "near"),
    [("gpu01", DONORS[:2]), ("gpu02", DONORS[:2]), ("gpu04", DONORS[2:3]), ("gpu09", ())],
)
def test_donors_of_the_same_leaf_are_near(node: str, near: tuple[str, ...]) -> None:
    assert leaf_donors(DONORS, node, from_slurm(TREE)[0]) == near


def test_without_a_topology_no_donor_is_near() -> None:
    assert from_slurm("Topology plugin is topology/flat") == ()
    assert leaf_donors(DONORS, "gpu01", {}) == ()


def settings(folder: Path, **content: Any) -> SwapSettings:
    for name, text in (("key", SERVICE_KEY.hex()), ("swap.json", "")):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(text)
    values = {
        "disk": str(folder),
        "donors": DONORS,
        "service_key_file": str(folder / "key"),
        "run": str(folder / "run"),
    }
    (folder / "swap.json").write_text(json.dumps(values | content))
    return read_swap_settings(folder / "swap.json")


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scontrol that prints the tree and counts its calls in a file."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "tree").write_text(TREE)
    program = tmp_path / "bin/scontrol"
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\ncat {tmp_path}/tree\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return tmp_path / "calls"


def test_slurm_is_asked_once_and_its_answer_is_kept(scontrol: Path, tmp_path: Path) -> None:
    for content in ({}, {"near": "topology"}):
        assert near_donors_of(settings(tmp_path, **content), "gpu01") == DONORS[:2]
    assert scontrol.read_text() == "show topology\n"
    assert near_donors_of(settings(tmp_path), "gpu03") == DONORS[2:3]  # another node
    kept = json.loads((tmp_path / "run/leaf.json").read_text())
    (tmp_path / "run/leaf.json").write_text(json.dumps(kept | {"time": kept["time"] - 601}))
    (tmp_path / "tree").write_text("")
    assert near_donors_of(settings(tmp_path), "gpu03") == ()
    (tmp_path / "run/leaf.json").write_text("[")
    assert near_donors_of(settings(tmp_path), "gpu03") == ()
    assert scontrol.read_text().count("\n") == 4


@pytest.mark.parametrize("near", [[], [DONORS[2]]])
def test_a_list_in_the_configuration_counts_alone(scontrol: Path, tmp_path: Path, near: list[str]) -> None:
    assert near_donors_of(settings(tmp_path, near=near), "gpu01") == tuple(near)
    assert not scontrol.exists()


def test_without_donors_slurm_is_not_asked(scontrol: Path, tmp_path: Path) -> None:
    assert near_donors_of(settings(tmp_path, donors=[]), "gpu01") == ()
    assert not scontrol.exists()


def test_without_an_answer_no_donor_is_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert near_donors_of(settings(tmp_path), "gpu01") == ()
    assert capfd.readouterr().err == ""
    (tmp_path / "scontrol").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setattr("tiresias.services.remote_memory.job_swap.leaf_donors.TIMEOUT_S", 0.1)
    assert near_donors_of(settings(tmp_path, run=str(tmp_path / "other")), "gpu01") == ()
    assert "no donor is preferred: scontrol show topology: TimeoutExpired" in capfd.readouterr().err


SCRIPT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin PYTHONPATH=/opt/tiresias/src
exec python3 -m tiresias.services.remote_memory.job_swap prolog /shared/swap.json 2>> /shared/prolog.log
"""
ON_NODES = [f"gpu0{number}:7600" for number in range(1, 5)]


@pytest.fixture(params=["tree", "block", "flat"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with two leaves of two nodes whose prolog hands each job its key and the donors."""
    prolog = {"Prolog": "/shared/prolog.sh", "PrologFlags": "Alloc"}
    spec = ClusterSpec(
        name=f"leaf-{request.param}-{os.getpid()}", nodes=4, gpus_per_node=0, nodes_per_rack=2, topology=request.param,
        hooks=False, settings=prolog,
    )  # fmt: skip
    found = Cluster.up(spec, report=print)
    try:
        content = {
            "disk": "/shared",
            "donors": ON_NODES,
            "service_key_file": "/shared/key",
            "keys": "all",
            "run": "/shared/run",
        }
        for name, text in (("key", SERVICE_KEY.hex()), ("swap.json", json.dumps(content))):
            (found.shared / name).touch(mode=0o600)
            (found.shared / name).write_text(text)
        (found.shared / "prolog.sh").write_text(SCRIPT)
        (found.shared / "prolog.sh").chmod(0o755)
        yield found
    finally:
        found.down()


@pytest.mark.sandbox
@pytest.mark.slow
def test_a_job_gets_the_donors_of_its_leaf(cluster: Cluster) -> None:
    near = {}
    for node in ("gpu01", "gpu04"):
        words = ["sbatch", "--parsable", "--wait", f"--nodelist={node}", "--output=/dev/null", "--wrap", "true"]
        job = cluster.run(words, user="alice").stdout.strip()
        near[node] = json.loads((folder_of(cluster.shared / "run", job) / KEY).read_text())["near"]
    has_leaves = cluster.spec.topology != "flat"
    assert near == {"gpu01": ON_NODES[:2] if has_leaves else [], "gpu04": ON_NODES[2:] if has_leaves else []}
