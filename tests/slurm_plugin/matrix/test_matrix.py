"""A part of the matrix of requests: programs have the same resources as in plain Slurm. `run.py` compares all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.slurm_plugin.matrix import requests_matrix, run

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]


def test_a_program_gets_the_same_as_from_plain_slurm(cluster_of: Callable[..., Any]) -> None:
    result = run.compare(cluster_of("forky", **run.OPTIONS), requests_matrix.few())
    assert not result["different"], result
    assert result["combinations"] >= 30
    assert result["started by the controller"] >= 0.9 * result["ran"], "Slurm started the others alone"
