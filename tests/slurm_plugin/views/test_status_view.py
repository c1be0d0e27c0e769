"""The whole view at fixed sizes against golden files, and hostile names, which must not change its layout."""

from __future__ import annotations

import html
import io
import re
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.examples import examples
from tests.golden import compare
from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.views.status import render_status
from tiresias.slurm_plugin.views.svg_rendering import as_svg
from tiresias.slurm_plugin.views.symbols import LETTERS, symbols_of
from tiresias.slurm_plugin.views.table_layout import UNLIMITED

GOLDEN = Path(__file__).parent / "golden"
DOCS = Path(__file__).parents[3] / "docs"
NOW = 1_780_000_000.0
HOSTILE = st.text(st.characters(exclude_categories=[]), max_size=60) | st.sampled_from(
    [
        "\x1b[2J\x1b[1;1H",
        "[red]x[/red]",
        "a\r\nb",
        "\u202ereversed",
        "x" * 1_000_000,
        "'\"`$(reboot)",
        "🏳\ufe0f\u200d🌈",
    ]
)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def drawn(status: dict[str, Any], width: int, height: int, colour: bool = False) -> list[str]:
    out = io.StringIO()
    console = Console(
        file=out, width=width, height=height, color_system="truecolor" if colour else None, force_terminal=colour
    )
    console.print(render_status(status, width, height, NOW))  # type: ignore[arg-type]  # as JSON gives it
    lines = out.getvalue().split("\n")
    assert lines.pop() == ""
    return lines


@pytest.mark.parametrize(("width", "height"), [(80, 24), (110, 40), (160, 34), (200, 60)])
def test_golden(status: dict[str, Any], width: int, height: int) -> None:
    compare(drawn(status, width, height), GOLDEN / f"status-{width}x{height}.txt")


@pytest.mark.parametrize("width", [30, 50, 80, 100, 149, 150, 200, 400])
@pytest.mark.parametrize("height", [3, 10, 24, 30, 60, 200])
def test_any_size_holds(status: dict[str, Any], width: int, height: int) -> None:
    lines = drawn(status, width, height)
    assert len(lines) <= height
    assert max(map(cell_len, lines)) <= width


def test_jobs_that_do_not_fit_are_counted(status: dict[str, Any]) -> None:
    text = "\n".join(drawn(status, 80, 24))
    shown = sum(f" {job['id']} " in text.split("last decisions")[0] for job in status["jobs"])
    assert f"… and {len(status['jobs']) - shown} more: " in text


@pytest.mark.parametrize(("width", "height"), [(80, 24), (110, 40), (160, 34), (200, 60)])
def test_a_reason_wraps_and_is_whole(status: dict[str, Any], width: int, height: int) -> None:
    words = [f"word{number}" for number in range(10, 40)]
    status["jobs"] = [dict(status["jobs"][-1], why=" ".join(words)), *status["jobs"]]
    lines = drawn(status, width, height)
    assert all(any(word in line for line in lines) for word in words)
    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("width", [80, 110])
def test_an_alarm_wraps(status: dict[str, Any], width: int) -> None:
    words = [f"word{number}" for number in range(10, 40)]
    status["alarms"] = [" ".join(words)]
    lines = drawn(status, width, 40)
    assert all(any(word in line for line in lines) for word in words)


def test_jobs_that_do_not_compete_are_shown(status: dict[str, Any]) -> None:
    status["jobs"], status["blocked"] = status["jobs"][:3], [
        {"id": "1170", "name": "after", "user": "ines", "gpus": 4, "state": "BLOCKED", "waited": 300.0, "submit_time": NOW,
         "preemptions": 0, "why": "Blocked by Slurm: Dependency"},
    ]  # fmt: skip
    (row,) = [line for line in drawn(status, 160, 34) if " 1170 " in line]
    assert re.search(r"1170 ines +after +4 blocked +5m00s +(Blocked by Slurm: Dependency)?", row)
    assert any("Blocked by Slurm: Dependency" in line for line in drawn(status, 160, 34))
    assert any("24 waiting   1 blocked" in line for line in drawn(status, 160, 34))
    status["jobs"] *= 20
    assert any(
        re.fullmatch(r"… and [0-9]+ more: [0-9]+ on nodes, 0 waiting, 1 blocked", line)
        for line in drawn(status, 80, 24)
    )


def test_nodes_that_do_not_fit_are_counted(status: dict[str, Any]) -> None:
    status["nodes"] = [dict(status["nodes"][n % 15], name=f"gpu{n:04}") for n in range(2000)]
    for size in ((80, 24), (200, 60)):
        assert any("more nodes: managed jobs hold" in line for line in drawn(status, *size))


def test_it_works_without_colours(status: dict[str, Any]) -> None:
    """Each GPU shows its job by a letter."""
    text = "\n".join(drawn(status, 80, 24))
    by_id = symbols_of(status["jobs"])
    assert f"gpu13  {' '.join(by_id['1102'].letter * 4)}" in text
    assert "gpu07! - - - -" in text
    assert "w w # ·" in text


def test_colour_and_plain_text_agree(status: dict[str, Any]) -> None:
    coloured = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in drawn(status, 160, 40, colour=True)]
    assert coloured == drawn(status, 160, 40)


def test_a_controller_that_hangs_is_an_alarm(status: dict[str, Any]) -> None:
    assert not any("no cycle for" in line for line in drawn(status, 80, 24))
    status["time"] = NOW - 600
    assert any("no cycle for 10m00s" in line for line in drawn(status, 80, 24))


def test_a_pause_is_in_the_header_with_its_author(status: dict[str, Any]) -> None:
    status["paused"] = {"since": NOW - 600, "by": "root", "reason": "drill [red]\x1b[2J"}
    for width in (80, 160):
        text = drawn(status, width, 34)
        assert any("testbed" in line and "paused" in line for line in text[:2])
        assert any("! no new preemptions since" in line and "by root: drill [red]" in line for line in text), text
        assert "\x1b" not in "".join(text)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60)])
def test_mode_shadow_shows_what_it_would_do(status: dict[str, Any], width: int, height: int) -> None:
    status |= {"mode": "shadow", "shadow": {"start": {"jobs": 3, "gpus": 12}, "preempt": {"jobs": 1, "gpus": 8}}}
    status["jobs"][0]["phase"], status["jobs"][-1]["phase"] = "to stop", "to start"
    first = "\n".join(drawn(status, width, height))
    assert "would start 3 jobs (12 GPUs), preempt 1 job (8 GPUs)" in first
    assert " to stop " in first
    status["shadow"] |= {"since": NOW - 7200, "seconds": 7200.0, "agreed": 6552.0, "gpu_seconds": 432000.0, "idle": 45000.0,
                         "taken": 100.0, "sooner": 42, "preempted": 3}  # fmt: skip
    text = "\n".join(drawn(status, width, height))
    assert "same as Slurm for 91% of 2h00m; 42 runs sooner, 3 preempted; 12.5 GPU-h idle" in text
    assert ("idle while jobs that fit wait" in text) is (width == 200)


def test_alarms_never_push_the_jobs_out(status: dict[str, Any]) -> None:
    status["alarms"] = [f"alarm {n}" for n in range(50)]
    text = "\n".join(drawn(status, 80, 24))
    assert "and 47 more alarms" in text
    assert "1201" in text


def test_where_packlimit_comes_from(status: dict[str, Any]) -> None:
    status["packlimit"] = {"limit": 0.2134, "learned": True, "jobs": 58, "error": 0.05, "why": ""}
    assert "packlimit 0.21 learned" in "\n".join(drawn(status, 200, 60))
    status["packlimit"]["learned"] = False
    assert "packlimit 0.21 default" in "\n".join(drawn(status, 200, 60))
    assert "packlimit" not in "\n".join(drawn(status, 80, 24)), "no space"


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (UNLIMITED, 60)])
def test_the_virtual_cluster_of_a_queue_is_whole(status: dict[str, Any], width: int, height: int) -> None:
    status["queues"][-1]["virtual_cluster"] = ""
    assert "(no virtual cluster)" in "\n".join(drawn(status, width, height))


def test_an_empty_cluster(status: dict[str, Any]) -> None:
    empty = status | {"jobs": [], "nodes": [], "decisions": [], "alarms": []}
    assert any("no jobs in the managed partitions" in line for line in drawn(empty, 80, 24))
    assert any("none yet" in line for line in drawn(empty, 200, 60))


def test_another_version_is_refused(status: dict[str, Any]) -> None:
    with pytest.raises(TiresiasError, match="version 2"):
        render_status(status | {"version": 2}, 80, 24, NOW)  # type: ignore[arg-type]


def test_a_newcomer_never_changes_an_older_jobs_letter(status: dict[str, Any]) -> None:
    before = symbols_of(status["jobs"])
    newcomer = dict(status["jobs"][0], id=str(1201 + len(LETTERS)), submit_time=NOW)
    after = symbols_of([newcomer, *status["jobs"]])  # type: ignore[list-item]
    assert {job_id: after[job_id] for job_id in before} == before
    assert len({symbol.letter for symbol in after.values()}) == len(after)


@given(name=HOSTILE, why=HOSTILE, user=HOSTILE, node=HOSTILE, where=st.integers(0, 38))
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_texts_change_only_themselves(
    status: dict[str, Any], name: str, why: str, user: str, node: str, where: int
) -> None:
    """No more lines, all parts, no control character, no style: whatever a user writes into a field."""
    hostile = deepcopy(status)
    hostile["jobs"][where] |= {"name": name, "why": why, "user": user, "phase": why}
    hostile["decisions"][0] |= {"why": why, "job": name, "action": user}
    hostile["alarms"] = [why]
    hostile["cluster"] = name
    hostile["nodes"][3] |= {"name": node}
    for size in ((80, 24), (160, 40)):
        lines = drawn(hostile, *size)
        assert len(lines) <= size[1]
        assert all(any(f"─ {part} ─" in line for line in lines) for part in ("nodes", "jobs", "last decisions"))
        assert all(cell_len(line) <= size[0] for line in lines)
        assert all(line.isprintable() for line in lines)


@given(name=HOSTILE)
@settings(max_examples=examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_names_bring_no_style_of_their_own(status: dict[str, Any], name: str) -> None:
    def styles(of: dict[str, Any]) -> int:
        return sum(line.count("\x1b[") for line in drawn(of, 160, 40, colour=True))

    hostile = deepcopy(status)
    hostile["jobs"][0]["name"] = name
    assert styles(hostile) == styles(status | {"jobs": [dict(status["jobs"][0], name="x"), *status["jobs"][1:]]})


def test_the_svg_is_xml_without_anything_remote(status: dict[str, Any]) -> None:
    from xml.etree import ElementTree

    status["jobs"][0]["name"] = "<script>&\x00"
    svg = as_svg(render_status(status, 160, 44, NOW), 160, "tiresias status")  # type: ignore[arg-type]
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "@font-face" not in svg
    assert "<script" not in svg
    assert "resnet152" in svg


def test_the_svg_of_the_readme_is_the_present_view(status: dict[str, Any]) -> None:
    status["alarms"] = []
    svg = as_svg(render_status(status, 160, 44, NOW), 160, "tiresias status")  # type: ignore[arg-type]
    compare(svg.splitlines(), DOCS / "status.svg")


VIEWS = [file for file in sorted(DOCS.glob("*.svg")) if "tiresias-r" in file.read_text()]  # made by rich


@pytest.mark.parametrize("svg", VIEWS, ids=lambda svg: svg.name)
def test_an_svg_has_the_width_of_its_texts(svg: Path) -> None:
    """Else a viewer draws the letters of a text apart from each other, or over each other."""
    found = re.findall(r'<text class="tiresias-r[^>]* textLength="([0-9.]+)"[^>]*>([^<]*)</text>', svg.read_text())
    assert found
    for length, text in found:
        assert float(length) == pytest.approx(12.2 * len(html.unescape(text)), abs=1), html.unescape(text)


@pytest.mark.parametrize(("width", "shown"), [(80, False), (110, True), (200, True), (10_000, True)])
def test_sizes_and_predicted_ends_are_shown_where_a_job_has_them(
    status: dict[str, Any], width: int, shown: bool
) -> None:
    assert "end in" not in "\n".join(drawn(status, width, 60))
    status["jobs"][0] |= {
        "min_gpus": 2,
        "max_gpus": 16,
        "end_low": NOW + 6000,
        "end": NOW + 7800,
        "end_high": NOW + 8400,
    }
    status["jobs"][1] |= {"end_low": NOW + 4000, "end": None, "end_high": None}
    text = "\n".join(drawn(status, width, 60))
    assert ("2h10m ±30m" in text) == shown
    assert (">1h06m" in text) == shown
    assert "2-16" in text
