"""Run a controller that takes the lead from any other, and never checks whether it still leads.

    python3 unfenced_controller.py CONFIG

Two of them on one state folder both act as the leader. The remaining protection does not depend on their checks: SQLite refuses the
journal writes of the earlier one, and each operation polls its job first.
"""

from __future__ import annotations

import sys

from tiresias.__main__ import main
from tiresias.durable.leadership import HUNG_SECONDS, Leadership
from tiresias.slurm_plugin.failover.fence import FencedBackend


def take(leadership: Leadership, above: int = 0) -> bool:
    return leadership.seize()


def skip_check(leadership: Leadership, grace: float = HUNG_SECONDS) -> None:
    pass


def skip_backend_check(backend: FencedBackend) -> None:
    pass


Leadership.take = take  # type: ignore[assignment, method-assign]
Leadership.renew = skip_check  # type: ignore[assignment, method-assign]
Leadership.check = skip_check  # type: ignore[assignment]
FencedBackend._check = skip_backend_check  # type: ignore[assignment, method-assign]
sys.exit(main(["controller", "--config", sys.argv[1]]))
