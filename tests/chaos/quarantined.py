"""Defects in the controller's log: a job is set aside because work on it failed, or other implementations decide until a restart.

The controller goes on, and the job may end as if nothing had happened: no other invariant need show it.
"""

from __future__ import annotations

import re
from pathlib import Path

ERROR = re.compile(r"[-0-9]+ [:,0-9]+ (?:ERROR|CRITICAL) (?P<words>.*)")  # a line of `tiresias controller`


def quarantined(log: Path) -> list[str]:
    """Return the errors that the controller logged; it logs nothing but defects as errors. Equal ones count once."""
    lines = map(ERROR.fullmatch, log.read_text(errors="replace").splitlines())
    return list(dict.fromkeys(line["words"] for line in lines if line))
