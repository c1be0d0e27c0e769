"""The doctor states whether placements use what was learned, and why not, by the answer of a controller."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.scheduler.place.learned.networks import random_weights
from tiresias.scheduler.place.learned.weights_file import written
from tiresias.scheduler.topology_tree import Topology
from tiresias.slurm_plugin.cluster.finding import Finding, Level
from tiresias.slurm_plugin.config import Placement
from tiresias.slurm_plugin.doctor.learned_placement_check import findings
from tiresias.slurm_plugin.observation.journal_interference import JournalInterference
from tiresias.slurm_plugin.observation.runs_to_learn import JournalRuns
from tiresias.slurm_plugin.observation.trained_network import TrainedNetwork
from tiresias.slurm_plugin.sockets.control_socket import ControlServer
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

NOW = 2_000_000.0
TOPOLOGY = Topology.of_groups([4] * 4, [[0, 0, 1, 1]])


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, 1)


def fill(journal: Journal, pairs: int, slowdown: float) -> None:
    """Store runs of one kind, some of them alone and as many in pairs on a node; the times vary by 1%."""
    rng = np.random.default_rng(1)
    for at in range(4 * pairs):
        is_alone = at < 2 * pairs
        start = NOW - 1000.0 * (2 * pairs + 2 - (at if is_alone else at // 2 - pairs)) - (1e5 if is_alone else 0.0)
        row = JobRow(f"{at}@1", str(at), 1001, 1.0, kind="aa-2-11.json", ended=True, over=start + 900.0)
        journal.save_job(row)
        seconds = (1.0 if is_alone else slowdown) * rng.normal(1.0, 0.01)
        journal.save_run(RunRow(row.key, 0, start, row.over, 2, "gpu01:2", timed=seconds))


def interference(journal: Journal, used: bool = True) -> dict[str, object] | None:
    """Return what a controller publishes that has learned from this journal."""
    found = JournalInterference(JournalRuns(journal), used)
    for _ in range(10):
        found.learn(NOW)
    return found.published()


def weights(file: Path | str, style: str = "learned", topology: Topology = TOPOLOGY) -> dict[str, object] | None:
    """Return what a controller publishes with this configuration."""
    found = TrainedNetwork(Placement(style=style, weights=str(file)))
    found.of(topology, NOW)
    return found.published()


@pytest.fixture
def serve(tmp_path: Path) -> Callable[[dict[str, Any]], AbstractContextManager[object]]:
    return lambda status: ControlServer(tmp_path / "control.sock", lambda request, peer: {"version": 1, **status})


@pytest.fixture
def found(tmp_path: Path, serve: Any) -> Callable[..., Finding]:
    def asked(**status: Any) -> Finding:
        with serve(status):
            [each] = findings(tmp_path)
        return each

    return asked


@pytest.mark.parametrize(
    ("pairs", "slowdown", "level", "words"),
    [
        (30, 1.3, Level.FINE, r"used: mean error [0-3]\.\d% against 2[2-4]\.\d% of no interference, .* kinds of jobs: 1$"),
        (30, 1.0, Level.FINE, r"not used, as it does not surely predict slowdowns better: .* by 60 timed runs; no slow"),
        (3, 1.3, Level.ADVICE, "not used: 6 timed runs beside jobs of one kind, and 10 are needed; no slowdown is expected"),
        (0, 1.3, Level.ADVICE, "not used: 0 timed runs beside"),
    ],
)  # fmt: skip
def test_the_learned_interference(
    journal: Journal, found: Callable[..., Finding], pairs: int, slowdown: float, level: Level, words: str
) -> None:
    fill(journal, pairs, slowdown)
    one = found(interference=interference(journal))
    assert (one.level, one.about) == (level, "interference")
    assert re.match(words, one.words), one.words
    assert bool(one.remedy) is (level is not Level.FINE)


def test_a_style_that_uses_none(journal: Journal, found: Callable[..., Finding]) -> None:
    one = found(interference=interference(journal, used=False))
    assert one == (Level.FINE, "interference", "not learned: the style of placement does not use it", "")


def test_the_trained_network(tmp_path: Path, found: Callable[..., Finding]) -> None:
    file = tmp_path / "w.npz"
    file.write_bytes(written(random_weights(TOPOLOGY, 1)))
    assert found(weights=weights(file)) == (Level.FINE, "learned placement", f"used: weights {file}", "")
    other = found(weights=weights(file, topology=Topology.of_groups([4] * 4, [[0, 0, 0, 1]])))
    start = f"not used, jobs are placed by least_interference: weights {file}: trained for another topology ("
    assert (other.level, other.words.startswith(start)) == (Level.RISK, True), other
    file.write_bytes(file.read_bytes()[:-100])
    assert "least_interference: " in found(weights=weights(file)).words
    file.unlink()
    assert f"weights {file}: No such file or directory" in found(weights=weights(file)).words
    assert "placement.weights names no file" in found(weights=weights("")).words
    assert found(weights=weights(file, "skew")).words == "not used: placement.style is not learned"


def test_no_controller(tmp_path: Path) -> None:
    assert not [*findings(tmp_path)]
    (tmp_path / "control.sock").touch()
    [one] = findings(tmp_path)
    assert one.level is Level.ADVICE
    assert one.words.startswith("not known: no controller answers at ")


def test_an_older_controller(tmp_path: Path, serve: Any) -> None:
    with serve({"node_speeds": None}):
        assert not [*findings(tmp_path)]
