"""The example of the page on stepping a simulation prints what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/how-to/simulation.md"


def test_the_example_prints_what_the_page_shows() -> None:
    program, *more = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    printed = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert not more
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [done.stdout] == printed
