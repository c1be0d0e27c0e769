"""The example files of remote memory: donor and prolog read them, and their paths, ports and sizes agree with the unit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.remote_memory.donors import SERVICE_KEY
from tiresias.services.remote_memory.donor.donor_settings import DonorSettings, read_donor_settings
from tiresias.services.remote_memory.job_swap.swap_settings import read_swap_settings

ETC = Path(__file__).parents[2] / "etc"
EXAMPLES = ETC / "remote-memory"
UNIT = (ETC / "tiresias-remote-memory.service").read_text()


def private(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path


def donor_settings(folder: Path) -> DonorSettings:
    """The example with a key of this user."""
    key = private(folder / "key", SERVICE_KEY.hex())
    text = (EXAMPLES / "donor.json").read_text().replace("/etc/tiresias/donor.key", str(key))
    return read_donor_settings(private(folder / "donor.json", text))


def test_the_donor_reads_its_example_and_the_unit_has_memory_for_it(tmp_path: Path) -> None:
    settings = donor_settings(tmp_path)
    (most_gib,) = re.findall(r"^MemoryMax=(\d+)G$", UNIT, re.MULTILINE)
    lent_gib = settings.most_slabs * settings.slab_bytes >> 30
    assert lent_gib < int(most_gib) <= lent_gib + 4
    assert "ExecStart=/usr/libexec/slurm-tiresias/donor /etc/tiresias/donor.json\n" in UNIT


def test_the_nodes_of_jobs_use_the_donor_of_the_example(tmp_path: Path) -> None:
    donor = donor_settings(tmp_path)
    text = (EXAMPLES / "remote-memory.json").read_text()
    swap = read_swap_settings(private(tmp_path / "swap.json", text))
    assert f"{donor.host}:{donor.port}" in swap.donors
    assert swap.slab_bytes == donor.slab_bytes
    assert str(swap.service_key_file) == "/etc/tiresias/service.key"


def test_the_task_epilog_does_nothing_for_a_job_without_files_on_the_node(tmp_path: Path) -> None:
    text = (EXAMPLES / "task-epilog.sh").read_text()
    assert "/usr/libexec/slurm-tiresias/job-swap} lines\n" in text
    script = tmp_path / "task-epilog.sh"
    script.write_text(text.replace("/run/tiresias/remote-memory", str(tmp_path)))
    program = tmp_path / "program.sh"
    program.write_text("#!/bin/sh\necho $1\n")
    program.chmod(0o755)
    environment = {"JOB_SWAP_PROGRAM": str(program), "SLURM_JOB_ID": "7"}
    call = ["sh", str(script)]
    assert subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout == ""
    (tmp_path / "jobs/7").mkdir(parents=True)
    assert subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout == "lines\n"


@pytest.mark.parametrize("part", ["prolog", "epilog"])
def test_the_script_calls_its_part_with_the_environment_of_slurm(part: str, tmp_path: Path) -> None:
    text = (EXAMPLES / f"{part}.sh").read_text()
    assert "/usr/libexec/slurm-tiresias/job-swap}" in text
    content = {"disk": str(tmp_path), "run": str(tmp_path / "run")}
    file = private(tmp_path / "swap.json", json.dumps(content))
    script = tmp_path / f"{part}.sh"
    script.write_text(text.replace("/etc/tiresias/remote-memory.json", str(file)))
    program = f"{sys.executable} -m tiresias.services.remote_memory.job_swap"
    environment = {
        **os.environ,
        "JOB_SWAP_PROGRAM": program,
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_EXTRA": "remote-mem=nothing",
    }
    done = subprocess.run(["sh", str(script)], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    if part == "prolog":
        assert done.stderr.startswith("tiresias: remote memory: job 7 runs without it: ")
        assert (tmp_path / "run/jobs/7/refused").exists()
