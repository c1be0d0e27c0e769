"""Runs a controller that takes the lead from whoever has it, and never looks whether it still has it.

    python3 blind.py CONFIG

Two of them on one state both believe that they lead. What is left is what no code of theirs can forget: SQLite refuses the
journal's writes of the one who came first, and each step looks at its job before it is done.
"""

from __future__ import annotations

import sys

from tiresias.__main__ import main
from tiresias.slurm_plugin.failover.fence import FencedBackend
from tiresias.slurm_plugin.lead.leadership import HUNG_SECONDS, Leadership


def take(leadership: Leadership, above: int = 0) -> bool:
    return leadership.seize()


def look_away(leadership: Leadership, grace: float = HUNG_SECONDS) -> None:
    pass


def never_ask(backend: FencedBackend) -> None:
    pass


Leadership.take = take  # type: ignore[method-assign]
Leadership.renew = look_away  # type: ignore[method-assign]
Leadership.check = look_away  # type: ignore[assignment]
FencedBackend._check = never_ask  # type: ignore[method-assign]
sys.exit(main(["controller", "--config", sys.argv[1]]))
