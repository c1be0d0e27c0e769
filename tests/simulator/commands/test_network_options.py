"""`tiresias simulate --topology` and `--interference` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.shared_data import shared_data
from tiresias.__main__ import main

TRACE = "job_id,submit_time,num_gpus,duration,model\na,0,3,1000,vgg16\nb,10,3,500,googlenet\nc,12,2,500,alexnet\n"
SAMPLES = "seconds,seconds_alone,cpu,cpu_same_socket\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path


def simulated(trace: Path, *options: str) -> dict[str, object]:
    out = trace.with_name("out.json")
    assert main(["simulate", str(trace), "--policy", "fifo", "--json", str(out), *options]) == 0
    found: dict[str, object] = json.loads(out.read_text())
    return found


def slowdowns(found: dict[str, object]) -> tuple[float, float]:
    policies = found["policies"]
    assert isinstance(policies, dict)
    return policies["fifo"]["mean_interference_slowdown"], policies["fifo"]["mean_network_slowdown"]


def test_the_table_and_json_have_the_mean_slowdowns(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--placement", "load_balancing")
    both = simulated(trace, "--topology", "fat_tree:2", "--interference", *options)
    shown = capsys.readouterr().out
    assert "3 jobs on 8 GPUs of 2 servers in fat_tree:2." in " ".join(shown.split())
    assert "Jobs slow each other on servers and links." in " ".join(shown.split())
    assert "mean slowdown of a job (1: none)" in shown
    interference, network = slowdowns(both)
    assert interference > 1.0 < network
    assert f"{interference:.3f}" in shown
    assert f"{network:.3f}" in shown
    assert (both["nodes"], both["topology"]) == (
        2,
        {"name": "fat_tree:2", "gpus": 8, "servers": {"quad": 2}, "switches": 5, "bandwidths": [10.0, 20.0, 40.0]},
    )
    links = simulated(trace, "--topology", "fat_tree:2", *options)
    assert slowdowns(links)[0] == 1.0 < slowdowns(links)[1]
    servers = simulated(
        trace, "--nodes", "2", "--gpus-per-node", "4", "--sockets-per-node", "2", "--interference", *options
    )
    assert slowdowns(servers)[0] > 1.0 == slowdowns(servers)[1]
    faster = simulated(trace, "--topology", "fat_tree:2", "--bandwidth", "1000", *options)
    assert 1.0 < slowdowns(faster)[1] < slowdowns(links)[1]


def test_without_the_options_neither_appears(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(trace, "--nodes", "2", "--gpus-per-node", "4")
    assert "slowdown" not in json.dumps(found["policies"])
    assert not {"topology", "contention"} & found.keys()
    assert "slow" not in capsys.readouterr().out


def test_a_model_that_is_fitted_to_samples_replaces_the_default(trace: Path, tmp_path: Path) -> None:
    samples = tmp_path / "samples.csv"
    rows = (f"{1.0 + cpu},1,0.3,{cpu}\n" for cpu in [each / 20 for each in range(1, 40)])
    samples.write_text(SAMPLES + "".join(rows))
    found = simulated(trace, "--topology", "fat_tree:2", "--interference-samples", str(samples))
    model = found["contention"]
    assert isinstance(model, dict)
    assert model["interference"]["form"] == "linear"
    assert model["interference"]["coefficients"]["cpu"] == pytest.approx(1.0)


def test_the_real_tree_of_lingjun_with_mixed_servers(trace: Path) -> None:
    file = shared_data("topology/lingjun_topo.csv.gz")
    found = simulated(trace, "--topology", str(file), "--servers", "mixed", "--interference")
    assert found["nodes"] == 847
    assert found["topology"] == {
        "name": file.name, "gpus": 424 * 4 + 423 * 8, "servers": {"quad": 424, "dgx": 423}, "switches": 123,
        "bandwidths": [10.0, 20.0, 40.0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--topology", "torus:3"), "topology 'torus:3': no such topology or file; there are fat_tree, vl2, bcube"),
        (("--topology", "fat_tree:3"), "fat_tree:3: give the ports of a switch, an even number"),
        (("--topology", "fat_tree:2", "--nodes", "2"), "--topology: --nodes has no meaning with it"),
        (
            ("--topology", "fat_tree:2", "--sockets-per-node", "2"),
            "--topology: --sockets-per-node has no meaning with it",
        ),
        (
            ("--topology", "fat_tree:2", "--servers", "big"),
            "--servers 'big' is not possible; there are quad, dgx, mixed",
        ),
        (
            ("--topology", "fat_tree:2", "--bandwidth", "10,-1"),
            "--bandwidth '10,-1': give 1 to 8 numbers of Gbit/s above 0",
        ),
        (("--topology", "fat_tree:2", "--bandwidth", "nan"), "--bandwidth 'nan': give 1 to 8 numbers"),
        (("--nodes", "2", "--gpus-per-node", "4", "--servers", "dgx"), "--servers: has no meaning without --topology"),
        (
            ("--nodes", "2", "--gpus-per-node", "4", "--bandwidth", "9"),
            "--bandwidth: has no meaning without --topology",
        ),
        (("--topology", "fat_tree:2", "--interference-samples", "none.csv"), "none.csv: cannot be read"),
        (("--topology", "fat_tree:2", "--gpus-per-node", "8"), "--topology: --gpus-per-node has no meaning with it"),
    ],
)
def test_mistakes_are_one_line(
    options: tuple[str, ...], message: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(trace), "--policy", "fifo", *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
