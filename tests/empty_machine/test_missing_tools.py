"""The fast tests on a machine without a compiler, without headers, without PyTorch and without the tools of private clusters.

What is missing is reported as the reason of a skip, and no test fails; as root and as an ordinary user. What is emulated:
tests/empty_machine/machine.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.empty_machine.machine import LIMIT_S, MARKS, USER_ID, Machine

CHECKOUT, PYTHON = "/srv/checkout", "/opt/venv/bin/python"
FAST = "not slow and not long"
pytestmark = [*MARKS]


def prepared(machine: Machine) -> Machine:
    """As CONTRIBUTING.md has it, without PyTorch."""
    machine.copy_checkout(CHECKOUT, USER_ID)
    install = f"{PYTHON} -m pip install -q --disable-pip-version-check"
    command = f"python3 -m venv /opt/venv && {install} 'pip>=25.1' && {install} -e . --group dev"
    done = machine.run(command, folder=CHECKOUT, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout[-3000:]
    return machine


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with Machine.new(tmp_path_factory.mktemp("bare"), ("python3", "python3-venv")) as machine:
        yield prepared(machine)


@pytest.fixture(scope="module")
def compiler_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    packages = ("python3", "python3-venv", "make", "gcc", "libc6-dev")
    with Machine.new(tmp_path_factory.mktemp("compiler"), packages) as machine:
        yield prepared(machine)


def reasons(machine: Machine, user: int, *tests: str) -> str:
    """Run fast tests, none of which may fail, and return the lines on skipped ones."""
    words = f"{PYTHON} -m pytest -q -p no:cacheprovider -n 2 --dist loadgroup -m '{FAST}' {' '.join(tests)}"
    done = machine.run(words, folder=CHECKOUT, user=user, timeout=LIMIT_S, env={"PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stdout[-5000:]
    print(done.stdout[-300:])
    return "\n".join(re.findall(r"^SKIPPED .*$", done.stdout, re.MULTILINE))


@pytest.mark.parametrize("user", [USER_ID, 0], ids=["user", "root"])
def test_without_any_of_them(bare: Machine, user: int) -> None:
    assert bare.run("for each in cc gcc make bwrap mmdebstrap; do command -v $each; done").stdout == ""
    found = reasons(bare, user)
    for missing in ("C compiler", "rdma-core's headers", "PyTorch is not installed", "the sandbox needs", "mmdebstrap"):
        assert missing in found, found
    assert ("becomes other users" in found) == (user != 0), found


def test_with_a_compiler_but_without_the_headers_of_rdma_core(compiler_only: Machine) -> None:
    found = reasons(compiler_only, 0, "tests/profiler", "tests/test_packaging.py", "tests/checkpoint/fault")
    assert "no C compiler" not in found, found
    assert "rdma-core's headers" in found, found
