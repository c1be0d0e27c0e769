"""The private cluster, the demo's replay and a rehearsal, from an installed wheel: no checkout is near."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import installed
import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
NAME = f"installed-{os.getpid()}"
TRACE = "job_id,submit_time,num_gpus,duration,user,vc,model,status\n" \
        "long,0,4,600,,,vgg19,\nwide,30,8,300,,,resnet50,\na,60,1,60,,,alexnet,\n"  # fmt: skip
TUTORIAL = "/opt/tiresias/docs/examples/tutorial/train.py"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("installed")
    return installed.make(base / "venv", installed.build("wheel", installed.ROOT, base / "dist"))


def tiresias(environment: Path, folder: Path, *words: str) -> str:
    command = [str(environment / "bin/tiresias"), *words]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_a_cluster_has_the_examples_and_the_hooks(environment: Path, tmp_path: Path) -> None:
    tiresias(environment, tmp_path, "sandbox", "up", "--name", NAME, "--nodes", "1")
    try:
        inside = ("sandbox", "run", "--name", NAME, "--")
        shown = tiresias(environment, tmp_path, *inside, "scontrol", "show", "config")
        assert "JobSubmitPlugins        = lua" in shown
        assert "/opt/tiresias/etc/poke.sh" in shown
        tiresias(environment, tmp_path, *inside, "/opt/tiresias/etc/poke.sh")
        where = tiresias(environment, tmp_path, *inside, "python3", "-c", "import tiresias; print(tiresias.__file__)")
        assert where == "/opt/tiresias/src/tiresias/__init__.py\n"
        tiresias(environment, tmp_path, *inside, "sh", "-c", f"test -e {TUTORIAL} && ! touch /opt/tiresias/x")
    finally:
        tiresias(environment, tmp_path, "sandbox", "down", "--name", NAME)


def test_the_demos_replay(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    size = ("--nodes", "2", "--gpus-per-node", "4", "--time-scale", "60")
    shown = tiresias(
        environment, tmp_path, "sandbox", "replay", "trace.csv", "--policy", "las", *size, "--json", "out.json"
    )
    assert "mean JCT" in shown
    kept = json.loads((tmp_path / "out.json").read_text())["policies"]["las"]["invariants"]
    assert kept["lost"] == kept["run_twice"] == 0


def test_a_rehearsal(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\nexec python3 {TUTORIAL} 5000\n")
    shown = tiresias(environment, tmp_path, "rehearse", "--sandbox", "--after", "2", "job.sh")
    assert "This job can be preempted." in shown
