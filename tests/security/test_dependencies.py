"""Known weaknesses of what is installed beside us, by the public database. `make audit` installs pip-audit and runs this."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

REQUIRED = {"numpy", "rich"}  # at run time; if not even these were looked up, nothing was


@pytest.mark.skipif(
    not importlib.util.find_spec("pip_audit"), reason="not checked: pip-audit is not installed (make audit)"
)
def test_nothing_that_is_installed_is_known_to_be_weak() -> None:
    words = ["--local", "--skip-editable", "--format", "json", "--progress-spinner", "off", "--timeout", "15"]
    done = subprocess.run(
        [sys.executable, "-m", "pip_audit", *words], capture_output=True, text=True, timeout=240, check=False
    )
    try:
        reported = json.loads(done.stdout)["dependencies"]
    except ValueError:
        problem = (done.stderr.splitlines() or ["no answer"])[-1]
        pytest.skip(f"not checked: no network to the vulnerability database ({problem:.120})")
    checked = {one["name"]: one["vulns"] for one in reported if "vulns" in one}
    if not checked.keys() >= REQUIRED:  # it calls that "no known vulnerabilities found"
        pytest.skip(
            f"not checked: the vulnerability database answered for {len(checked)} of {len(reported)} packages only"
        )
    assert {name: [one["id"] for one in found] for name, found in checked.items() if found} == {}
