"""The first job of a kind is recorded and judged, the next one is not; what is kept is the user's and the controller's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tiresias.profiler.build import NET, libraries

pytestmark = pytest.mark.sandbox
User = Any  # conftest.py
TENSORS = "70000 900 120000 400 5000 300"
SKEW = 120000 / 196600
SCRIPT = f"""#!/bin/bash
#SBATCH -N2 --ntasks-per-node=2 --gpus-per-node=1 -o log-%j
rm -f address
tsrun python3 exchange.py $PWD/address 400 0.02 {TENSORS}
echo trained
sleep ${{LATER:-0}}
"""


@pytest.fixture
def trainer(alice: User) -> User:
    """Where the recorder is built for all nodes."""
    place = alice.cluster.shared / "w" / "lib"
    place.mkdir(exist_ok=True)
    shutil.copy(libraries().net, place / NET)
    shutil.copy(Path(__file__).with_name("exchange.py"), alice.folder)
    alice.write("train.sh", SCRIPT)
    alice.env = alice.env | {"TIRESIAS_PROFILE_LIBRARIES": "/shared/w/lib", "LATER": "60"}
    return alice


def profiles(user: User) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in user.cluster.shared.glob("w/control/*/profiles/*.json")]


def test_the_first_job_of_a_kind_is_recorded_and_the_next_one_is_not(trainer: User) -> None:
    first = trainer.submit("train.sh")
    trainer.until(lambda: bool(profiles(trainer)), lambda: trainer.log(f"log-{first}"))
    trainer.until_logged(f"log-{first}", "tiresias: profiled: consolidate")
    [found] = profiles(trainer)
    assert (found["name"], found["gpus"], found["job"]) == ("train.sh", 2, first)
    assert (found["decision"], found["workers"], found["servers"]) == ("consolidate", 3, 1)
    assert found["skew"] == pytest.approx(SKEW, abs=0.01)
    assert found["model"] == pytest.approx(196600, rel=0.01)
    shown = trainer.run("python3", "-m", "tiresias", "profile", first)
    assert "consolidate" in shown.stdout, shown.stderr

    second = trainer.submit("train.sh")
    trainer.run("scancel", first)
    trainer.until_logged(f"log-{second}", "trained")
    assert "profiled" not in trainer.log(f"log-{second}")
    assert not list(trainer.cluster.shared.glob(f"w/control/*/{second}/profile"))
    trainer.run("scancel", second)


def test_a_job_that_forbids_it_is_not_recorded(trainer: User) -> None:
    trainer.env = trainer.env | {"TIRESIAS_PROFILE": "0", "LATER": "0"}
    job = trainer.submit("--job-name=secret", "train.sh")
    trainer.until_logged(f"log-{job}", "trained")
    assert not [found for found in profiles(trainer) if found["name"] == "secret"]
    assert not list(trainer.cluster.shared.glob(f"w/control/*/{job}/trial"))


def test_a_missing_recorder_costs_a_line(trainer: User) -> None:
    trainer.env = trainer.env | {"TIRESIAS_PROFILE_LIBRARIES": "/shared/w/nowhere", "LATER": "0"}
    job = trainer.submit("--job-name=bare", "train.sh")
    trainer.until_logged(f"log-{job}", "trained")
    assert "this run is not profiled: /shared/w/nowhere: holds no" in trainer.log(f"log-{job}")
    assert (trainer.folder / "address").exists()
