"""What is expected of runs and how it is compared with what was measured, on made-up runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.co_location.predictions import (
    TrainedRun,
    alone_seconds,
    by_job_names,
    double_booked,
    judged,
    kendall_tau,
    of_style,
    rankings,
    timing,
)
from tests.examples import examples
from tiresias.protocol.job_kind import Key
from tiresias.scheduler.interference_table import InterferenceTable
from tiresias.slurm_plugin.observation.runs_to_learn import kind_name

TABLE = InterferenceTable.of(["decode", "embed"], [[1.6, 1.1], [1.2, 1.0]])


def run(job: str, kind: str, node: str, start: float, end: float, seconds: float, device: int = 0) -> TrainedRun:
    return TrainedRun(job, kind, node, (device,), start, end, seconds, end - start + 1.0)


def test_a_run_is_expected_to_be_slowed_by_each_neighbour_for_its_time() -> None:
    runs = [
        run("a", "decode", "gpu01", 0.0, 10.0, 0.15),
        run("b", "decode", "gpu01", 5.0, 10.0, 0.16, device=1),
        run("c", "embed", "gpu01", 0.0, 10.0, 0.1, device=2),
        run("d", "decode", "gpu02", 0.0, 10.0, 0.1),
    ]
    found = judged(runs, {"decode": 0.1, "embed": 0.1}, TABLE)
    assert [one.expected for one in found] == pytest.approx([1.0 + 0.3 + 0.1, 1.0 + 0.6 + 0.1, 1.0 + 0.2 + 0.1, 1.0])
    assert [one.measured for one in found] == pytest.approx([1.5, 1.6, 1.0, 1.0])
    assert [one.beside for one in found] == pytest.approx([1.5, 2.0, 1.5, 0.0])
    assert [one.expected for one in judged(runs, {"decode": 0.1, "embed": 0.1}, None)] == [1.0] * 4
    assert alone_seconds(runs) == {"decode": 0.1}
    style = of_style(found)
    assert style["kinds"]["decode"]["runs_alone"] == 1
    assert style["kinds"]["decode"]["step_beside"] == pytest.approx(0.155)
    assert style["kinds"]["embed"]["step_alone"] is None
    assert style["runs_of_nodes"] == {"gpu01": 3, "gpu02": 1}
    assert style["error"] < style["error_without"]


def test_the_table_of_a_controller_is_found_by_the_names_of_jobs() -> None:
    kinds = [kind_name(1001, Key(name, "0" * 16, 1).file) for name in ("embed", "another", "decode")]
    table = InterferenceTable.of(kinds, np.arange(1.0, 10.0).reshape(3, 3))
    found = by_job_names(table, ["decode", "augment", "embed"])
    assert found.kinds == ("decode", "embed")
    assert found.slowdown.tolist() == [[9.0, 7.0], [3.0, 1.0]]


def test_a_gpu_of_two_jobs_at_a_time_is_found() -> None:
    runs = [run("a", "decode", "gpu01", 0.0, 10.0, 0.1), run("b", "decode", "gpu01", 9.0, 20.0, 0.1)]
    assert double_booked(runs) == ["a and b: GPUs [0] of gpu01"]
    assert double_booked([runs[0], runs[1]._replace(start=10.0)]) == []
    assert double_booked([runs[0], runs[1]._replace(devices=(1,))]) == []
    assert double_booked([runs[0], runs[1]._replace(node="gpu02")]) == []


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30))
def test_the_rank_correlation_is_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    one, two = zip(*pairs, strict=True)
    expected = float(stats.kendalltau(one, two).statistic)
    found = kendall_tau(one, two)
    assert found is None if np.isnan(expected) else found == pytest.approx(expected)


def test_styles_are_ranked_by_their_mean_slowdowns() -> None:
    def style(expected: float, measured: float) -> dict[str, dict[str, float]]:
        return {"mean_slowdown": {"expected": expected, "measured": measured}}

    found = rankings({"random": style(1.3, 1.4), "consolidate": style(1.5, 1.9), "learned": style(1.1, 1.1)})
    assert found == {
        "expected": ["learned", "random", "consolidate"],
        "measured": ["learned", "random", "consolidate"],
        "agree": True,
        "kendall_tau": 1.0,
    }
    assert not rankings({"random": style(1.3, 1.4), "learned": style(1.1, 1.5)})["agree"]


def test_the_clock_of_the_controller_is_compared_with_that_of_the_programs() -> None:
    runs = [run("a", "decode", "gpu01", 0.0, 1.0, 0.1), run("b", "decode", "gpu01", 0.0, 1.0, 0.1)]
    assert timing(runs, {"a": 0.11, "other": 1.0}) == {"runs": 1, "error": 0.1}
    assert timing(runs, {}) == {"runs": 0, "error": None}
