"""`tiresias profile` from files to what a user reads."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.profiler.recording import Link, Network
from tests.profiler.tensors import tensors
from tiresias.errors import TiresiasError, UsageError
from tiresias.slurm_plugin.commands import profile as command


def profile(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return command.run(parser.parse_args([str(each) for each in arguments]))


def train(net: Network, links: Iterable[Link], sizes: Sequence[int], iterations: int = 20) -> None:
    for iteration in range(iterations):
        for link in links:
            for number, size in enumerate(sizes):
                net.send(link, iteration + 0.5 + 0.2 * number / len(sizes), size)
                net.send(link.back, iteration + 0.75 + 0.2 * number / len(sizes), size)


@pytest.fixture
def vgg(tmp_path: Path) -> Path:
    net = Network()
    server = net.process("gpu03", 7)
    train(net, [net.connect(net.process(f"gpu0{n}", n), server) for n in (1, 2)], tensors("vgg16"))
    net.write(tmp_path)
    return tmp_path


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    net = Network()
    a, b, c = (net.process(f"gpu0{n}", n) for n in (1, 2, 3))
    links = [net.connect(a, b), net.connect(b, c), net.connect(c, a)]
    for iteration in range(20):
        for step in range(8):
            for link in links:
                net.send(link, iteration + 0.5 + 0.01 * step, 10_000_000 if step < 4 else 8_000_000)
    net.write(tmp_path)
    return tmp_path


def test_report(vgg: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert profile(vgg) == 0
    output = capsys.readouterr().out
    for words in (
        "consolidate: its largest tensor is 74.3% of the model",
        "1.00 s, confidence",
        "20 seen",
        "parameter servers, 1 servers, 2 workers",
        "527.8 MiB",
        "392.0 MiB, 74.3% of the model",
        "gpu03:7",
        "256.0 MiB",
        "senders over time",
    ):
        assert words in output
    assert max(map(len, output.splitlines())) <= 100


def test_json(vgg: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert profile(vgg, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["decision"] == "consolidate"
    assert found["model_bytes"] == pytest.approx(sum(tensors("vgg16")), rel=0.001)
    assert found["skew"] == pytest.approx(0.743, abs=0.001)
    assert found["period"]["seconds"] == pytest.approx(1, rel=0.01)
    assert found["processes"] == ["gpu01:1", "gpu02:2", "gpu03:7"]
    assert sum(each["messages"] for each in found["histogram"]) == 4 * 32
    assert sum(each["bytes"] for each in found["histogram"]) == pytest.approx(found["bytes_per_iteration"])


def test_packlimit(vgg: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile(vgg, "--packlimit", "0.8")
    assert capsys.readouterr().out.startswith("spread")


@pytest.mark.parametrize(("bandwidth", "decision"), [(None, "unknown"), (100, "spread"), (0.1, "consolidate")])
def test_an_all_reduce_needs_the_bandwidth(
    ring: Path, capsys: pytest.CaptureFixture[str], bandwidth: float | None, decision: str
) -> None:
    """72 MB leave a process in an iteration, which computes for 0.93 s."""
    profile(ring, "--json", *(["--bandwidth", bandwidth] if bandwidth else []))
    found = json.loads(capsys.readouterr().out)
    assert (found["architecture"], found["workers"], found["decision"]) == ("ring all-reduce", 3, decision)
    assert found["model_bytes"] == pytest.approx(72e6 * 3 / 4)
    assert found["intensity"] == (bandwidth and pytest.approx(72e6 / (bandwidth * 125e6) / 0.93, rel=0.01))


def test_one_worker_alone_shows_the_model(vgg: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile(*vgg.glob("gpu01*"), "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["model_bytes"] == pytest.approx(sum(tensors("vgg16")), rel=0.01)
    assert found["notes"] == ["1 ends of connections were not recorded"]


def test_a_job_that_sent_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Network()
    net.process("gpu01", 1)
    profile(*net.write(tmp_path))
    assert capsys.readouterr().out.startswith("unknown: no periodic traffic detected")


def test_plot(vgg: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    image = tmp_path / "a.png"
    assert profile(vgg, "--plot", image) == 0
    assert image.read_bytes().startswith(b"\x89PNG")
    assert image.stat().st_size > 10_000


def test_mistakes(vgg: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match=r"contains no \.net file"):
        profile(empty)
    with pytest.raises(TiresiasError, match="cannot be read"):
        profile(tmp_path / "nothing.net")
    with pytest.raises(UsageError, match=r"name a \.png file"):
        profile(vgg, "--plot", tmp_path / "a.jpg")
    monkeypatch.setattr("tiresias.profiler.views.profile_plots.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install"):
        profile(vgg, "--plot", tmp_path / "a.png")


@pytest.mark.parametrize(
    "options", [["--bandwidth", "0"], ["--bandwidth", "x"], ["--packlimit", "2"], ["--packlimit", "nan"]]
)
def test_impossible_options(vgg: Path, options: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        profile(vgg, *options)
    assert left.value.code == 2


def test_a_job_is_named_by_its_id(
    vgg: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "control"
    recorded = root / str(os.getuid()) / "4711_3" / "profile"
    recorded.mkdir(parents=True)
    for file in vgg.glob("*.net"):
        file.rename(recorded / file.name)
    monkeypatch.setenv("TIRESIAS_CONTROL_ROOT", str(root))
    assert profile("4711_3") == 0
    assert "consolidate" in capsys.readouterr().out
    with pytest.raises(UsageError, match="job 4712 left no recording below"):
        profile("4712")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
def test_profiles_of_several_users_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "control"
    for uid, owner in ((20001, 20001), (20002, 20002), (20003, 20002)):
        folder = root / str(uid) / "4711" / "profile"
        folder.mkdir(parents=True)
        for each in (folder, folder.parent, folder.parent.parent):
            os.chown(each, owner, owner)
    monkeypatch.setenv("TIRESIAS_CONTROL_ROOT", str(root))
    with pytest.raises(UsageError, match="several users have recordings of job 4711") as refused:
        profile("4711")
    assert "20003" not in str(refused.value), "that folder is not that user's"
    (root / "20001" / "4711" / "profile").rename(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"20002/4711/profile: contains no \.net file"):
        profile("4711")
