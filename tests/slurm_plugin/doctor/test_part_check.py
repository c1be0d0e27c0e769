"""The doctor reports a list of part types that has no effect."""

from __future__ import annotations

import pytest

from tiresias.slurm_plugin.backends.interface import SlurmNode
from tiresias.slurm_plugin.cluster.finding import Level
from tiresias.slurm_plugin.doctor.part_check import finding

NODE = SlurmNode(
    name="gpu01", state="IDLE", flags=frozenset(), reason="", gpus=4, gpus_allocated=0, gpu_type="s0,s1", cpus=16,
    cpus_allocated=0, memory=64000, memory_allocated=0, features=(), partitions=("gpu",),
    gpus_by_type=(("s0", 2), ("s1", 2)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("version", "types", "level", "words"),
    [
        ("26.05.5", ("s0", "s1"), Level.FINE, "starts select the parts of 1 of 1 nodes"),
        ("26.05.5", ("s1", "s0"), Level.RISK, "no node has GPUs of the types s1, s0"),
        ("22.05.8", ("s0", "s1"), Level.RISK, "Slurm 22.05.8 does not change the type of a job's GPUs"),
    ],
)
def test_the_finding(version: str, types: tuple[str, ...], level: Level, words: str) -> None:
    found = finding(version, [NODE], types)
    assert found.level is level
    assert words in found.words
    assert bool(found.remedy) == (level is not Level.FINE)
    assert "24.11 or later" in found.remedy or version != "22.05.8"
