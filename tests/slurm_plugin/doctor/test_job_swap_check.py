"""What the doctor reports of the swap of a job on a node."""

from __future__ import annotations

import json
import sys

import pytest

from tiresias.slurm_plugin.cluster.finding import Finding, Level
from tiresias.slurm_plugin.doctor import job_swap_check


def found(**content: object) -> Finding:
    node = {"missing": [], "cgroup": "v2", "compression": "zswap off, zram", "risks": []}
    text = json.dumps({**node, "configuration": {"works": [], "problems": []}, **content})
    return job_swap_check.finding((sys.executable, "-c", f"print({text!r})"))


def test_a_node_with_all_of_it() -> None:
    assert found().level is Level.FINE
    assert found().words.endswith(": works with cgroup v2; zswap off, zram")


def test_what_is_missing_is_one_line() -> None:
    finding = found(missing=["no /dev/fuse", "no limit"])
    assert finding.level is Level.ADVICE
    assert finding.words.endswith(": cannot be used: no /dev/fuse; no limit")
    assert finding.remedy


def test_what_other_jobs_could_use_is_advice() -> None:
    finding = found(risks=["ConstrainSwapSpace is not yes"])
    assert finding.level is Level.ADVICE
    assert finding.words.endswith("; ConstrainSwapSpace is not yes")


def test_a_donor_that_does_not_answer_is_advice() -> None:
    finding = found(
        configuration={"works": ["1 of 2 donors answer, 640 MiB free"], "problems": ["donor b:1: timed out"]}
    )
    assert finding.level is Level.ADVICE
    assert finding.words.endswith("; 1 of 2 donors answer, 640 MiB free; donor b:1: timed out")


def test_this_host_is_checked() -> None:
    finding = job_swap_check.finding()
    assert "not checked" not in finding.words
    assert "works with cgroup" in finding.words or "cannot be used: " in finding.words


@pytest.mark.parametrize("printed", ["", "[]", "3", '{"a": 1}', '{"missing": 3}'])
def test_output_that_is_none(printed: str) -> None:
    finding = job_swap_check.finding((sys.executable, "-c", f"print({printed!r})"))
    assert finding.level is Level.ADVICE
    assert finding.words.startswith("not checked: ")
