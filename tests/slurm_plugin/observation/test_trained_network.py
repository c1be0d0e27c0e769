"""The network of the configuration is used where it fits; otherwise an alarm states why it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scheduler.place.learned.networks import random_weights
from tiresias.scheduler.place.learned.weights_file import written
from tiresias.scheduler.topology_tree import Topology
from tiresias.slurm_plugin.config import Placement
from tiresias.slurm_plugin.observation.trained_network import POLL_INTERVAL_S, TrainedNetwork

TOPOLOGY = Topology.of_groups([4] * 4, [[0, 0, 1, 1]])
OTHER = Topology.of_groups([4] * 4, [[0, 0, 0, 1]])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "w.npz"
    path.write_bytes(written(random_weights(TOPOLOGY, 1)))
    return path


def network(file: Path | str, style: str = "learned") -> TrainedNetwork:
    return TrainedNetwork(Placement(style=style, weights=str(file)))


def test_a_file_that_fits_is_used_and_followed(file: Path) -> None:
    found = network(file)
    first = found.of(TOPOLOGY, 0.0)
    assert first is not None
    assert first.training == {"seed": 1}
    assert found.alarms() == []
    assert found.published() == {"used": True, "file": str(file), "why": ""}
    replacement = file.with_suffix(".new")
    replacement.write_bytes(written(random_weights(TOPOLOGY, 2)))
    replacement.replace(file)
    assert found.of(TOPOLOGY, POLL_INTERVAL_S - 1) is first
    second = found.of(TOPOLOGY, POLL_INTERVAL_S)
    assert second is not None
    assert second.training == {"seed": 2}


def test_another_style_reads_no_file(tmp_path: Path) -> None:
    found = network(tmp_path / "none", "skew")
    assert found.of(TOPOLOGY, 0.0) is None
    assert found.alarms() == []
    assert found.published() is None


def test_the_topology_may_change(file: Path) -> None:
    found = network(file)
    assert found.of(OTHER, 0.0) is None
    (alarm,) = found.alarms()
    assert alarm.startswith(f"jobs are placed by least_interference: weights {file}: trained for another topology (")
    assert found.of(TOPOLOGY, 1.0) is not None
    assert found.alarms() == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "weights {}: No such file or directory; name a file that can be read"),
        (b"", "weights {}: it is truncated, or no file of weights; train them again, or name another file"),
    ],
)
def test_a_bad_file_is_an_alarm_until_it_is_replaced(tmp_path: Path, content: bytes | None, expected: str) -> None:
    file = tmp_path / "w.npz"
    if content is not None:
        file.write_bytes(content)
    found = network(file)
    assert found.of(TOPOLOGY, 0.0) is None
    assert found.alarms() == [f"jobs are placed by least_interference: {expected.format(file)}"]
    file.write_bytes(written(random_weights(TOPOLOGY, 1)))
    assert found.of(TOPOLOGY, POLL_INTERVAL_S) is not None
    assert found.alarms() == []
    file.unlink()
    assert found.of(TOPOLOGY, 2 * POLL_INTERVAL_S) is None


def test_no_file_is_an_alarm() -> None:
    found = network("")
    assert found.of(TOPOLOGY, 0.0) is None
    assert "placement.weights names no file" in found.alarms()[0]


def test_a_pipe_or_folder_is_no_file(tmp_path: Path) -> None:
    found = network(tmp_path)
    assert found.of(TOPOLOGY, 0.0) is None
    assert "Is a directory" in found.alarms()[0]
