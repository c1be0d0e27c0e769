"""`tiresias status --clusters`: a line for each cluster, whatever its controller publishes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.examples import examples
from tiresias.errors import TiresiasError, Unavailable
from tiresias.slurm_plugin.views.clusters_page import clusters_page

PUBLISHED = json.loads((Path(__file__).parents[1] / "sockets/golden/status.json").read_text())
NOW = PUBLISHED["time"] + 3.0


def drawn(answers: dict[str, Any], width: int = 120, user: str = "") -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(clusters_page(answers, width, NOW, user))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_each_cluster_has_a_line_with_its_figures_or_the_reason_why_there_are_none() -> None:
    other = {**PUBLISHED, "mode": "shadow", "alarms": ["the journal is full", "two"], "nodes": [], "queues": []}
    title, *lines = drawn({"alpha": PUBLISHED, "beta": other, "gamma": Unavailable("no controller answers at /x")})
    queues, nodes = PUBLISHED["queues"], PUBLISHED["nodes"]
    used = sum(count for node in nodes for _, count in node["allocations"])
    assert title.split() == ["cluster", "mode", "policy", "GPUs", "running", "waiting", "cycle", "note"]
    assert lines[0].split()[:6] == [
        "alpha",
        PUBLISHED["mode"],
        PUBLISHED["policy"]["name"],
        f"{used}/{sum(node['gpus'] for node in nodes)}",
        str(sum(queue["running"] for queue in queues)),
        str(sum(queue["waiting"] for queue in queues)),
    ]
    assert lines[1].endswith("the journal is full (and 1 more)")
    assert lines[2].split(maxsplit=1) == ["gamma", "no controller answers at /x"]


def test_the_jobs_of_a_user_follow() -> None:
    user = PUBLISHED["jobs"][0]["user"]
    lines = drawn({"alpha": PUBLISHED, "beta": PUBLISHED, "gamma": TiresiasError("down")}, user=user)
    titles = [line for line in lines if f"jobs of {user} on" in line]
    assert [title.split(" on ")[1].split()[0] for title in titles] == ["alpha", "beta"]
    assert (
        sum(line.split()[:1] == [PUBLISHED["jobs"][0]["id"]] or PUBLISHED["jobs"][0]["id"] in line for line in lines)
        >= 2
    )


@settings(max_examples=examples(50), deadline=None)
@given(st.text(max_size=60), st.text(max_size=200), st.sampled_from([40, 60, 100, 160]))
def test_no_text_of_a_controller_breaks_the_table(name: str, alarm: str, width: int) -> None:
    lines = drawn({name: {**PUBLISHED, "alarms": [alarm], "mode": alarm}, "beta": TiresiasError(alarm)}, width)
    assert len(lines) >= 3
    assert all(cell_len(line) <= width for line in lines)


@pytest.mark.parametrize("width", [60, 120])
def test_a_narrow_terminal_has_fewer_columns(width: int) -> None:
    assert ("policy" in drawn({"alpha": PUBLISHED}, width)[0]) == (width > 90)
