"""What `tiresias doctor` gets to read of the donors in a node's configuration, with real donors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.services.remote_memory.donors import SERVICE_KEY, SLAB_MIB, DonorProcess
from tiresias.services.remote_memory.job_swap.donor_answers import configuration_state


@pytest.fixture
def donor(tmp_path: Path) -> Any:
    process = DonorProcess(tmp_path / "donor", headroom_mib=1)
    yield process
    process.kill()


def configuration(folder: Path, key: bytes = SERVICE_KEY, **content: Any) -> Path:
    key_file, file = folder / "key", folder / "swap.json"
    for path in (key_file, file):
        path.touch(mode=0o600)
    key_file.write_text(key.hex())
    values = {"disk": str(folder), "service_key_file": str(key_file), "slab_mib": SLAB_MIB}
    file.write_text(json.dumps(values | content))
    return file


def test_a_node_without_a_configuration(tmp_path: Path) -> None:
    assert configuration_state(tmp_path / "none.json") == {"works": [], "problems": []}


def test_donors_that_answer_and_one_that_is_gone(donor: DonorProcess, tmp_path: Path) -> None:
    state = configuration_state(configuration(tmp_path, donors=[donor.address, "127.0.0.1:1"]))
    assert state["works"] == ["1 of 2 donors answer, 32 MiB free"]
    assert state["problems"] == ["donor 127.0.0.1:1: Connection refused"]


def test_another_key_another_slab_and_no_disk(donor: DonorProcess, tmp_path: Path) -> None:
    (problem,) = configuration_state(configuration(tmp_path, key=bytes(32), donors=[donor.address]))["problems"]
    assert problem.startswith(f"donor {donor.address}: ")
    state = configuration_state(configuration(tmp_path, donors=[donor.address], slab_mib=2))
    assert state["problems"] == [f"donor {donor.address}: its slabs have 1 MiB, those of this node 2"]
    state = configuration_state(configuration(tmp_path, disk=str(tmp_path / "none")))
    assert state["problems"][-1].endswith(f"disk: {tmp_path / 'none'} is no folder")


@pytest.mark.parametrize("text", ["{", '{"disk": 3}', '{"disk": "/", "donor": []}'])
def test_a_file_that_cannot_be_used_is_one_line(text: str, tmp_path: Path) -> None:
    file = configuration(tmp_path)
    file.write_text(text)
    (problem,) = configuration_state(file)["problems"]
    assert problem.startswith(f"{file}: ")
    assert "\n" not in problem
