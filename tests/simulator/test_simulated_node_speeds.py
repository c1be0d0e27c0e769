"""Nodes of different speeds in the simulator, and jobs that are placed by them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tiresias.__main__ import main
from tiresias.errors import UsageError
from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.rank.policies import POLICIES
from tiresias.simulator import ClusterSize, Rules, Trace, TraceJob, simulate
from tiresias.simulator.placement_workloads import PlacementWorkload
from tiresias.simulator.simulated_node_speeds import SimulatedNodeSpeeds, read_node_speeds, read_sensitivities
from tiresias.simulator.simulated_placement import SimulatedPlacement

CLUSTER = ClusterSize(3, 4)
NAMES = CLUSTER.names


def jcts(trace: Trace, style: str, speeds: SimulatedNodeSpeeds | None, cluster: ClusterSize = CLUSTER) -> list[float]:
    placement = replace(SimulatedPlacement.named(style), speeds=speeds)
    rules = Rules(POLICIES["fifo"], PolicyConfig(name="fifo"), by_node=True, placement=placement)
    return [round(float(each), 3) for each in simulate(trace, cluster, rules).jct]


def test_a_job_is_as_slow_as_its_slowest_node_and_as_sensitive_as_its_model() -> None:
    models = ("googlenet", "inception3", "resnet50")
    jobs = [TraceJob(name, 0.0, num_gpus=12, duration=100.0, model=name) for name in models]
    speeds = SimulatedNodeSpeeds(np.array([1.0, 2.25, 0.5]), {"googlenet": 0.5, "inception3": 0.0})
    assert jcts(Trace.of(jobs), "consolidate", speeds) == [150.0, 250.0, 475.0]
    assert jcts(Trace.of(jobs), "consolidate", None) == [100.0, 200.0, 300.0]


def test_the_style_leaves_the_fast_node_to_the_job_that_is_sensitive() -> None:
    jobs = [
        TraceJob("one", 0.0, num_gpus=4, duration=100.0, model="googlenet"),
        TraceJob("two", 1.0, num_gpus=4, duration=100.0, model="resnet50"),
    ]
    speeds = SimulatedNodeSpeeds(np.array([0.8, 1.0, 1.5]), {"googlenet": 0.0})
    assert jcts(Trace.of(jobs), "fastest_nodes", speeds) == [100.0, 80.0]
    assert jcts(Trace.of(jobs), "consolidate", speeds) == [100.0, 100.0]


def test_equal_nodes_change_nothing() -> None:
    trace, cluster = PlacementWorkload(60).trace(1, 32), ClusterSize(8, 4, 4)
    plain = jcts(trace, "consolidate", None, cluster)
    assert jcts(trace, "consolidate", SimulatedNodeSpeeds(np.ones(8)), cluster) == plain


def test_jobs_end_sooner_where_some_nodes_are_slow() -> None:
    trace, cluster = PlacementWorkload(80).trace(2, 32), ClusterSize(8, 4, 4)
    speeds = SimulatedNodeSpeeds(np.array([2.0, 1.0, 1.05, 0.95, 1.0, 1.1, 0.9, 1.0]))
    assert np.mean(jcts(trace, "fastest_nodes", speeds, cluster)) < 0.97 * np.mean(
        jcts(trace, "consolidate", speeds, cluster)
    )


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("node00000,0", "is not possible; write the time of a step there"),
        ("node00000,-1", "is not possible"),
        ("node00000,inf", "node00000|slowness|inf"),
        ("node00000,1e9", "is not possible"),
        ("node00000,fast", "fast"),
        ("gpu17,1.2", "is no node; the nodes are node00000 to node00002"),
        ("node00001,1.2\nnode00001,1.3", "occurs twice; remove a line"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, lines: str, problem: str) -> None:
    file = tmp_path / "speeds.csv"
    file.write_text(f"node,slowness\n{lines}\n")
    with pytest.raises(UsageError, match=problem) as error:
        read_node_speeds(file, NAMES)
    assert "\n" not in str(error.value)


def test_a_file_states_some_nodes(tmp_path: Path) -> None:
    file = tmp_path / "speeds.csv"
    file.write_text("node,slowness\nnode00002,1.5\n")
    assert read_node_speeds(file, NAMES).tolist() == [1.0, 1.0, 1.5]


@pytest.mark.parametrize("text", ["", "vgg16", "vgg16=", "=0.5", "vgg16=2", "vgg16=nan", "vgg16=0,VGG16=1"])
def test_bad_sensitivities_are_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="give MODEL=NUMBER"):
        read_sensitivities(text)


def test_the_options_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, speeds, out = (tmp_path / name for name in ("trace.csv", "speeds.csv", "out.json"))
    trace.write_text("job_id,submit_time,num_gpus,duration\na,0,4,100\n")
    speeds.write_text("node,slowness\nnode00000,1.5\n")
    size = ["simulate", str(trace), "--policy", "fifo", "--nodes", "3", "--gpus-per-node", "4"]
    given = [*size, "--placement", "consolidate", "--node-speeds", str(speeds)]
    assert main([*given, "--json", str(out)]) == 0
    assert "Nodes take 1.00 to 1.50 times as long as the median one" in " ".join(capsys.readouterr().out.split())
    assert '"mean_jct": 150.0' in out.read_text()
    assert main([*given, "--speed-sensitivity", "resnet50=0", "--json", str(out)]) == 0
    assert main([*size, "--node-speeds", str(speeds)]) == 2
    assert "give --placement STYLE, too" in capsys.readouterr().err
    assert main([*size, "--speed-sensitivity", "vgg16=0"]) == 2
    assert "no meaning without --node-speeds" in capsys.readouterr().err
