"""Run the controller until a given cycle, in which it hangs for ever.

python3 hang_at.py CYCLE CONFIG
"""

from __future__ import annotations

import sys
import time
from typing import Any

from tiresias.__main__ import main
from tiresias.slurm_plugin.observation.observer import Observer

CYCLE, CONFIG = sys.argv[1:]
_observe = Observer.observe
_left = int(CYCLE)


def _observe_or_hang(*arguments: Any) -> Any:
    global _left
    _left -= 1
    while _left < 0:
        time.sleep(1)
    return _observe(*arguments)


Observer.observe = _observe_or_hang  # type: ignore[assignment, method-assign]
sys.exit(main(["controller", "--config", CONFIG]))
