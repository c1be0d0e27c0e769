"""The example files of the parameter service: its manager reads the configuration; the unit and the script have the same paths."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.parameter_service.conftest import until
from tiresias.services.parameter_service.manager.manager_settings import read_manager_settings

ETC = Path(__file__).parents[2] / "etc"
FOLDER = "/shared/tiresias/service"


def test_the_manager_reads_the_example() -> None:
    settings = read_manager_settings(ETC / "parameter-service/manager.json")
    paths = (
        settings.state,
        settings.publish,
        settings.announce,
        settings.script,
        settings.service_key_file,
        settings.report,
    )
    assert all(str(path).startswith(f"{FOLDER}/") for path in paths)
    unit = (ETC / "tiresias-parameter-service.service").read_text()
    assert re.findall(r"^ReadWritePaths=-(.*)$", unit, re.MULTILINE) == [FOLDER]
    script = (ETC / "parameter-service/aggregator.sh").read_text()
    assert f"service={FOLDER}\n" in script
    (memory_mib,) = re.findall(r"^memory_mib=(\d+)$", script, re.MULTILINE)
    assert settings.job_memory_mib < int(memory_mib) < settings.memory_mib


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="/dev/shm is not there")
def test_the_batch_script_starts_an_aggregator_and_removes_its_folder(tmp_path: Path) -> None:
    (tmp_path / "announce").mkdir()
    (tmp_path / "key").write_text("0f" * 32)
    (tmp_path / "key").chmod(0o600)
    number = str(os.getpid())
    script = tmp_path / "aggregator.sh"
    text = (ETC / "parameter-service/aggregator.sh").read_text().replace(FOLDER, str(tmp_path))
    script.write_text(text.replace("$(uname -n)", "127.0.0.1"))
    environment = {
        **os.environ,
        "AGGREGATOR_PROGRAM": f"{sys.executable} -m tiresias.services.parameter_service.aggregator",
    }
    process = subprocess.Popen(["sh", str(script), number], env=environment, start_new_session=True)
    folder = Path(f"/dev/shm/tiresias-aggregator-{os.getuid()}-{number}")
    try:
        announced = tmp_path / f"announce/{number}.json"
        until(lambda: announced.exists() or process.poll() is not None, "the aggregator starts")
        pid = json.loads(announced.read_text())["pid"]
        assert (folder / "state").stat().st_mode & 0o077 == 0
        for each in (process.pid, pid):  # as scancel does it
            os.kill(each, signal.SIGTERM)
        assert process.wait(30) == 0
        assert not folder.exists()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
