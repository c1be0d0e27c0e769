"""etc/packages/one_job.py: the version for one job of a formula returns what the formula does."""

from __future__ import annotations

import importlib.util
import math
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "etc/packages/one_job.py"
FORMULAS = '''
"""Formulas."""

from __future__ import annotations

from tiresias.scheduler.elementwise import (
    Values, either, interval, known, larger, pick, rounded, smaller, to_millisecond, where,
)
from tiresias.scheduler.rank.policy import Rows


def formula(jobs: Rows, one: float, other: float) -> Values:
    """All functions of `elementwise` that a version replaces."""
    return (
        where(jobs.runs, one, other), larger(one, other), smaller(one, other), rounded(jobs.ran, 1),
        interval((0.0, 1.0, 2.0), one), pick((5, 6), jobs.row), known(one, other), known(jobs.ran, 9.0),
        either(jobs.runs, twice, minus, one),
    )


def twice(value: Values) -> Values:
    return 2 * value


def minus(value: Values) -> Values:
    return -value


def in_milliseconds(value: Values) -> Values:
    return to_millisecond(value)


def unchanged(value: float) -> float:
    return larger(value, 0.0)
'''
NUMBERS = (-1.0, 0.0, 1.0, 1.25, math.inf, math.nan)


class SimulatedJob(SimpleNamespace):
    pass


@pytest.fixture
def module(tmp_path: Path) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("one_job", SCRIPT)
    assert spec
    assert spec.loader
    one_job = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(one_job)
    file = tmp_path / "tiresias/formulas.py"
    file.parent.mkdir()
    file.write_text(FORMULAS)
    one_job.add_versions(tmp_path, ["formulas.py"])
    names: dict[str, Any] = {"SimulatedJob": SimulatedJob}
    exec(compile(file.read_text(), file, "exec"), names)
    return names


def test_a_version_returns_what_the_formula_does(module: dict[str, Any]) -> None:
    for one, other, ran, runs in product(NUMBERS, NUMBERS, NUMBERS, (False, True)):
        values = {"row": int(runs), "ran": ran, "runs": runs}
        found = module["formula"](SimulatedJob(**values), one, other)
        assert repr(found) == repr(module["formula"](SimpleNamespace(**values), one, other))


@pytest.mark.parametrize("moment", [0.0, 1.0005, -2.0015, 1234567.8915, 2.0**52 / 1000.0])
def test_a_moment_in_milliseconds(module: dict[str, Any], moment: float) -> None:
    assert repr(module["in_milliseconds_of_one"](moment)) == repr(module["in_milliseconds"](moment))


def test_a_simulated_job_is_given_to_the_version(module: dict[str, Any]) -> None:
    module["formula_of_one"] = lambda *arguments: arguments[1:]
    assert module["formula"](SimulatedJob(), 1.0, 2.0) == (1.0, 2.0)


def test_the_version_calls_versions_and_no_function_of_elementwise(module: dict[str, Any]) -> None:
    called = set(module["formula_of_one"].__code__.co_names)
    assert {"twice_of_one", "minus_of_one"} <= called
    assert not called & {"where", "either", "larger", "smaller", "rounded", "interval", "pick", "twice", "minus"}
    assert "unchanged_of_one" not in module
