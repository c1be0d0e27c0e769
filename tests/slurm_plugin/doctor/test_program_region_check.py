"""What the doctor reports of regions of programs on a node."""

from __future__ import annotations

import sys

import pytest

from tiresias.services.remote_memory.region.region_ability import region_ability
from tiresias.slurm_plugin.cluster.finding import Finding, Level
from tiresias.slurm_plugin.doctor import program_region_check


def found(printed: str) -> Finding:
    return program_region_check.finding((sys.executable, "-c", f"print({printed!r})"))


def test_this_host_is_checked() -> None:
    finding = program_region_check.finding()
    assert finding.words.endswith(f": {region_ability()}")


def test_a_region_without_limits_is_fine() -> None:
    assert found("this user's programs can have a region; system calls wait for its pages").level is Level.FINE


@pytest.mark.parametrize(
    "printed",
    [
        "this user's programs cannot have a region: userfaultfd: Operation not permitted",
        "this user's programs can have a region; system calls wait for its pages; its hot pages are not known",
        "x",
    ],
)
def test_what_is_missing_is_advice(printed: str) -> None:
    finding = found(printed)
    assert finding.level is Level.ADVICE
    assert finding.words.endswith(f": {printed}")
    assert finding.remedy


@pytest.mark.parametrize("printed", ["", "one\ntwo"])
def test_output_that_is_none(printed: str) -> None:
    assert found(printed).words.startswith("not checked: ")
