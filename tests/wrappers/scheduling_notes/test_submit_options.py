"""What the options ask for: the command line before the environment before the script."""

from __future__ import annotations

import pytest

from tiresias.wrappers import sbatch_options
from tiresias.wrappers.scheduling_notes import submit_options


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["-p", "gpu"], [("partition", "gpu")]),
        (["-pgpu", "-G4", "-vQ"], [("partition", "gpu"), ("gpus", "4"), ("v", ""), ("quiet", "")]),
        (["--part=gpu", "--gres", "gpu:2"], [("partition", "gpu"), ("gres", "gpu:2")]),
        (["-sfoo", "-kQ", "--no-requeue"], [("s", "foo"), ("k", "Q"), ("no-requeue", "")]),
        (["-vJ", "-p", "job.sh", "-p", "x"], [("v", ""), ("job-name", "-p")]),
        (["--test-only", "--", "-Q"], [("test-only", "")]),
    ],
)
def test_name_and_value_of_each_option(words: list[str], expected: list[tuple[str, str]]) -> None:
    assert sbatch_options.named(words) == expected


SCRIPT = b"#!/bin/sh\n# a comment\n#SBATCH -p gpu --gres=gpu:2  # why\n#SBATCH --job-name='a b' --no-requeue\ntrue\n#SBATCH -pno\n"


@pytest.mark.parametrize(
    ("options", "env", "changed"),
    [
        ([], {}, {}),
        (["-p", "other"], {"SBATCH_PARTITION": "mine"}, {"partition": "other"}),
        ([], {"SBATCH_PARTITION": "mine"}, {"partition": "mine"}),
        (["--requeue"], {"SBATCH_NO_REQUEUE": ""}, {"requeue": ""}),
        (["--no-requeue", "--requeue"], {}, {"requeue": ""}),
        (["--requeue", "--no-requeue"], {}, {"requeue": "no"}),
        (["--in-2030"], {}, {}),
    ],
)
def test_precedence(options: list[str], env: dict[str, str], changed: dict[str, str]) -> None:
    written = {"partition": "gpu", "gres": "gpu:2", "job-name": "a b", "requeue": "no"}
    assert submit_options.of(options, SCRIPT, env) == written | changed


def test_a_line_that_sbatch_will_refuse_is_ignored() -> None:
    assert submit_options.of([], b"#!/bin/sh\n#SBATCH -J 'open\n", {}) == {}


@pytest.mark.parametrize(
    "options", [["-G1"], ["--gpus=a100:2"], ["--gpus-per-task=1"], ["--gres=gpu"], ["--tres-per-task=gres/gpu:1"]]
)
def test_gpus(options: list[str]) -> None:
    assert submit_options.asks_for_gpus(submit_options.of(options, b"", {}))


@pytest.mark.parametrize("options", [[], ["-n4"], ["--gres=shard:1"], ["--gpus=0"], ["--gpu-bind=none"]])
def test_none(options: list[str]) -> None:
    assert not submit_options.asks_for_gpus(submit_options.of(options, b"", {}))
