from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tiresias.slurm_plugin.views.explain import render_explanation
from tiresias.slurm_plugin.views.neighbours import interference_text, speed_text

KNOWN = {"learned": True, "known": True, "beside": []}
ONE = {"job": "31", "own": 0.021, "other": 0.0}
SPEED = {"slowdown": 1.524, "slowest": "gpu03", "sensitivity": 1.0}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, ""),
        ({"learned": False, "known": False, "beside": []}, "none expected: the runs of this site do not show"),
        ({"learned": True, "known": False, "beside": []}, "not known: too few runs of jobs of its kind"),
        (KNOWN, "none expected: no other job of a known kind is on its nodes"),
        (KNOWN | {"beside": [ONE]}, "2% slower beside job 31 (expected)"),
        (
            KNOWN | {"beside": [ONE | {"other": 0.31}, ONE | {"job": "", "own": 0.0}]},
            "2% slower beside job 31, which becomes 31% slower (expected); not slower beside a job of another user (expected)",
        ),
        (KNOWN | {"beside": [ONE] * 7}, "2 more jobs"),
        (KNOWN | {"beside": [ONE | {"job": "3\x1b[2J1"}]}, "beside job 3"),
    ],
)
def test_in_words(found: Any, expected: str) -> None:
    text = interference_text(found)
    assert expected in text
    assert "\x1b" not in text
    assert bool(text) == bool(expected)


def test_explain_prints_it() -> None:
    job: Any = {"id": "7", "state": "RUNNING", "submit_time": 1.0, "preemptions": 0, "why": ""}
    output = io.StringIO()
    explanation: Any = {"job": job, "decisions": [], "interference": KNOWN | {"beside": [ONE]}, "speed": SPEED}
    Console(file=output, width=120).print(render_explanation(explanation, 120, 100.0))
    assert "interference  2% slower beside job 31 (expected)\n" in output.getvalue()
    assert "node speed    52% slower than on the median node" in output.getvalue()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, ""),
        (SPEED, "52% slower than on the median node, by gpu03, the slowest of its nodes (expected)"),
        (
            SPEED | {"slowdown": 0.9},
            "10% faster than on the median node, by gpu03, the slowest of its nodes (expected)",
        ),
        (SPEED | {"slowdown": 1.001}, "as fast as on the median node, by gpu03, the slowest of its nodes (expected)"),
        (SPEED | {"sensitivity": 0.0}, "as on other nodes: the runs of its kind do not show that slow nodes slow it"),
    ],
)
def test_the_expected_speed_in_words(found: Any, expected: str) -> None:
    assert speed_text(found) == expected
