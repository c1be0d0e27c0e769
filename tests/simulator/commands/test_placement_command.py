"""`tiresias placement train` and `evaluate` as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.simulator.learning.learners import CLUSTERS, weights_for
from tiresias.__main__ import main
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.place.learned.array_zip import unzipped
from tiresias.scheduler.place.learned.weights_file import load, written
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator import PlacementWorkload, Rules, SimulatedContention, simulate
from tiresias.simulator.contention.simulated_contention import DEFAULT_INTERFERENCE
from tiresias.simulator.simulated_node_speeds import SimulatedNodeSpeeds
from tiresias.simulator.simulated_placement import SimulatedPlacement

TINY = ("--topology", "fat_tree:2", "--jobs", "6", "--demonstrations", "1")
STYLES = ("consolidate", "tetris", "load_balancing", "least_interference", "skew")
TRAIN = ("placement", "train", *TINY)


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def train(out: Path, *more: str, episodes: int = 3) -> int:
    pytest.importorskip("torch", reason="torch is not installed")
    return main([*TRAIN, "--episodes", str(episodes), "--out", str(out), *more])


def failure(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


def test_the_weights_are_for_the_topology_and_name_their_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "placement.npz"
    assert train(out) == 0
    assert "3 episodes, seed 1." in capsys.readouterr().out
    found = load(out)
    found.check(CLUSTERS["fat_tree:2"].topology(), "")
    assert (found.level, found.training["jobs"], found.training["arrivals"]) == ("leaf", 6, "poisson")
    assert train(tmp_path / "single.npz", "--agents", "single", "--arrivals", "uniform") == 0
    single = load(tmp_path / "single.npz")
    assert (single.level, single.sizes.partition_layers, single.training["arrivals"]) == ("cluster", 0, "uniform")


def test_a_finished_training_goes_on_with_more_episodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "placement.npz"
    assert train(out, "--resume", episodes=10) == 0
    assert train(out, "--resume", episodes=12) == 0
    assert "2 episodes after 10 of before" in capsys.readouterr().out
    before = out.read_bytes()
    assert train(out, "--resume", episodes=12) == 0
    assert out.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["placement.npz", "placement.npz.checkpoint"]


@pytest.mark.long
def test_a_killed_training_loses_one_episode_at_most(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, whole = tmp_path / "killed.npz", tmp_path / "whole.npz"
    checkpoint = out.with_name("killed.npz.checkpoint")
    command = [sys.executable, "-m", "tiresias", *TRAIN, "--episodes", "30", "--out", str(out)]
    began = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not checkpoint.exists() or (done := episodes_of(checkpoint)) < 3:
        assert began.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    os.kill(began.pid, signal.SIGKILL)
    assert began.wait() == -signal.SIGKILL
    assert (left := episodes_of(checkpoint)) >= done
    assert train(out, "--resume", episodes=30) == 0
    assert f"{30 - left} episodes after {left} of before" in capsys.readouterr().out
    assert train(whole, episodes=30) == 0
    assert out.read_bytes() == whole.read_bytes()


def episodes_of(checkpoint: Path) -> int:
    from tiresias.simulator.learning.training_checkpoint import SCHEMA  # needs PyTorch

    return len(unzipped(checkpoint.read_bytes(), SCHEMA)[0]["curve"])


def test_the_learning_curves_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    assert train(tmp_path / "placement.npz", "--plot", str(tmp_path / "curves")) == 0
    assert (tmp_path / "curves/learning.png").read_bytes().startswith(b"\x89PNG")
    assert b"search" in (tmp_path / "curves/learning.svg").read_bytes()


def test_a_trace_gives_the_arrivals_and_its_last_tenth_is_held_back(tmp_path: Path) -> None:
    trace, out = tmp_path / "trace.csv", tmp_path / "placement.npz"
    rows = [f"{row},{row * row},1,60" for row in range(30)]
    trace.write_text("\n".join(["job_id,submit_time,num_gpus,duration", *rows]) + "\n")
    assert train(out, "--trace", str(trace)) == 0
    options = ("--trace", str(trace), "--seeds", "2", "--json", str(tmp_path / "gains.json"))
    assert evaluate(out, *options) == 0
    trained, evaluated = load(out).training["arrivals"], json.loads((tmp_path / "gains.json").read_text())["arrivals"]
    assert trained.startswith("trace.csv (")
    assert evaluated.startswith("trace.csv (")
    assert trained != evaluated


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--resume", "--seed", "2"), "is of a training with seed 1, not 2; give the same options, or remove the file"),
        (("--resume", "--servers", "dgx"), "is of a training with cluster"),
        ((), "placement.npz.checkpoint: a training to go on with; give --resume, or remove the file to begin again"),
        (("--resume", "--episodes", "2"), "has 3 episodes already; give --episodes 3 or more, not 2"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_one_line(
    options: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path / "placement.npz") == 0
    capsys.readouterr()
    before = (tmp_path / "placement.npz").read_bytes()
    assert train(tmp_path / "placement.npz", *options) == 2
    assert message in failure(capsys)
    assert (tmp_path / "placement.npz").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--topology", "fat_tree:3"), "fat_tree"),
        (("--topology", "nowhere"), "no such topology or file"),
        (("--arrivals", "sometimes"), "--arrivals 'sometimes' is not possible; there are uniform, poisson"),
        (("--agents", "many"), "--agents 'many' is not possible; there are partition, single"),
        (("--load", "0"), "a load above 0"),
        (("--load", "nan"), "a load above 0"),
        (("--jobs", "0"), "--jobs '0': give a whole number above 0"),
        (("--jobs", "1000000"), "--jobs is 1000000: 100,000 is the most"),
        (("--layers", "9"), "--layers is 9: 8 is the most"),
        (("--demonstrations", "4"), "--demonstrations is 4: 3 is the most"),
        (("--teacher", "skew"), "--teacher 'skew' is not possible"),
        (("--seed", "-1"), "--seed '-1': give a whole number above 0"),
        (("--arrivals", "uniform", "--trace", "x.csv"), "--arrivals has no meaning with --trace"),
        (("--trace", "/dev/null/x.csv"), "/dev/null/x.csv"),
    ],
)
def test_impossible_options_are_one_line(
    options: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(tmp_path / "placement.npz", *options) == 2
    assert message in failure(capsys)
    assert not list(tmp_path.iterdir())


def evaluate(weights: Path, *more: str) -> int:
    return main(["placement", "evaluate", "--topology", "fat_tree:2", "--jobs", "6", "--weights", str(weights), *more])


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    (file := tmp_path / "placement.npz").write_bytes(written(weights_for("fat_tree:2")))
    return file


def test_an_evaluation_is_what_the_simulator_measures(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(weights, "--seeds", "3", "--json", str(tmp_path / "gains.json")) == 0
    found, shown = json.loads((tmp_path / "gains.json").read_text()), capsys.readouterr().out
    assert found["seeds"] == [1, 2, 3]
    assert tuple(found["gains"]) == STYLES
    for style in STYLES:
        assert found["mean_jct"][style] == pytest.approx([simulated_jct(style, seed) for seed in (1, 2, 3)], abs=1e-3)
        gain = 1 - np.array(found["mean_jct"]["learned"]) / found["mean_jct"][style]
        assert found["gains"][style]["mean"] == pytest.approx(gain.mean(), abs=1e-5)
        assert style in shown
    wins = all(gain["low"] > 0 for gain in found["gains"].values())
    assert found["recommended"] is wins
    assert ("Recommended: " if wins else "Not recommended: the gain over ") in shown


def test_on_servers_of_different_speeds_fastest_nodes_is_compared_too(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, file, out = CLUSTERS["fat_tree:2"], tmp_path / "speeds.csv", tmp_path / "gains.json"
    file.write_text(f"node,slowness\n{cluster.names[0]},3\n")
    model = PlacementWorkload(jobs=6).trace(1, cluster.gpus).model[0]
    options = ("--node-speeds", str(file), "--speed-sensitivity", f"{model}=0.5", "--seeds", "2", "--json", str(out))
    assert evaluate(weights, *options) == 0
    found, shown = json.loads(out.read_text()), capsys.readouterr().out
    assert tuple(found["gains"]) == (*STYLES, "fastest_nodes")
    assert (found["node_speeds"], found["speed_sensitivity"]) == (str(file), {model: 0.5})
    speeds = SimulatedNodeSpeeds(np.array([3.0, 1.0]), {model: 0.5})
    for style in ("consolidate", "fastest_nodes"):
        each = [simulated_jct(style, seed, speeds) for seed in (1, 2)]
        assert found["mean_jct"][style] == pytest.approx(each, abs=1e-3)
    assert np.mean(found["mean_jct"]["consolidate"]) > np.mean([simulated_jct("consolidate", seed) for seed in (1, 2)])
    assert "fastest_nodes" in shown


def simulated_jct(style: str, seed: int, speeds: SimulatedNodeSpeeds | None = None) -> float:
    cluster = CLUSTERS["fat_tree:2"]
    rules = Rules(
        POLICIES["fifo"],
        PolicyConfig.paper(name="fifo"),
        by_node=True,
        placement=replace(SimulatedPlacement.named(style), speeds=speeds),
        contention=SimulatedContention(DEFAULT_INTERFERENCE),
    )
    return float(simulate(PlacementWorkload(jobs=6).trace(seed, cluster.gpus), cluster, rules).jct.mean())


def test_weights_for_another_topology_are_compared_only_on_request(
    weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(weights, "--seeds", "2", "--topology", "fat_tree:4") == 2
    assert "trained for another topology" in failure(capsys)
    assert evaluate(weights, "--seeds", "2", "--topology", "fat_tree:4", "--transfer") == 0
    assert "Not recommended: the weights were trained for another topology." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--seeds", "1"), "--seeds is 1: an interval needs 2 to 100,000 workloads"),
        (
            ("--weights", "/dev/null.npz"),
            "weights /dev/null.npz: No such file or directory; name a file that can be read",
        ),
        (("--weights", "/dev/null"), "weights /dev/null: no regular file"),
        (("--json", "/dev/null/gains.json"), "there is no folder /dev/null"),
        (("--node-speeds", "/dev/null/speeds.csv"), "/dev/null/speeds.csv"),
        (("--speed-sensitivity", "vgg16=0"), "--speed-sensitivity has no meaning without --node-speeds"),
        (("--speed-sensitivity", "vgg16=2"), "give MODEL=NUMBER"),
    ],
)
def test_an_impossible_evaluation_is_one_line(
    options: tuple[str, ...], message: str, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(weights, *options) == 2
    assert message in failure(capsys)
