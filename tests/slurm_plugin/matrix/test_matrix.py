"""A part of the matrix of requests: the program gets the same as from plain Slurm. `run.py` compares all of them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.sandbox
HERE = Path(__file__).parent


def runner() -> Any:
    spec = importlib.util.spec_from_file_location("matrix_run", HERE / "run.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["matrix_run"] = module
    spec.loader.exec_module(module)
    return module


def test_a_program_gets_the_same_as_from_plain_slurm(cluster_of: Callable[..., Any]) -> None:
    run = runner()
    result = run.compare(cluster_of("forky", **run.OPTIONS), run.few())
    assert not result["different"], result
    assert result["combinations"] >= 30
    assert result["started by the controller"] >= 0.9 * result["ran"], "Slurm started the others alone"
