"""README.md followed literally on an empty machine: the commands of "Try it", as they stand there, one after the other.

The empty machine is emulated: a Debian 12 with `make` and Python in namespaces of this one (machine.py lists what it shares). The
checkout is a copy of the files that git lists. README_PYTEST, if set, becomes PYTEST_ADDOPTS of `make test`, for a trial with fewer
tests.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.empty_machine.machine import LIMIT_S, MARKS, ROOT, Machine

NEEDED = ("make", "python3")  # README: "with make and Python 3.11"
CHECKOUT = "/root/checkout"
pytestmark = [*MARKS]


def commands() -> list[str]:
    """Return the commands of the section "Try it", without their comments."""
    section = (ROOT / "README.md").read_text().partition("\n## Try it")[2].partition("\n## ")[0]
    return [line.partition("#")[0].strip() for line in re.findall(r"^    (\S.*)$", section, re.MULTILINE)]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with Machine.new(tmp_path_factory.mktemp("readme"), NEEDED) as machine:
        machine.copy_checkout(CHECKOUT)
        yield machine


def test_the_machine_is_empty(machine: Machine) -> None:
    found = machine.run(
        "for each in cc git bwrap mmdebstrap ip qemu-system-x86_64 pip3; do command -v $each; done; ls /root"
    )
    assert found.stdout == "checkout\n"
    assert not (machine.tree / CHECKOUT[1:] / ".venv").exists()


def test_readme_has_the_two_commands() -> None:
    assert commands() == ["make demo", "make test"]


def test_the_demo(machine: Machine) -> None:
    done = machine.run(commands()[0], folder=CHECKOUT, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout[-5000:]
    result = json.loads(Path(machine.tree / CHECKOUT[1:] / "demo-out/result.json").read_text())
    assert set(result["policies"]) == {"las", "slurm-fifo"}
    print(done.stdout[-3000:])


def test_the_tests(machine: Machine) -> None:
    """What is missing for a test is reported by the test; none fails."""
    done = machine.run(
        commands()[1], folder=CHECKOUT, timeout=LIMIT_S, env={"PYTEST_ADDOPTS": os.environ.get("README_PYTEST", "")}
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert re.search(r"=+ \d+ passed.* in ", done.stdout), done.stdout[-5000:]
    print(done.stdout[-3000:])
