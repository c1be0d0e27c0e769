"""A training program of someone else whose steps take some time: python paced.py SECONDS PROGRAM [ARGUMENTS]

What it computes is the same. How many steps fit between two preemptions no longer depends on the machine alone.
"""

from __future__ import annotations

import runpy
import sys
import time
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

SECONDS = float(sys.argv[1])


def slowly(optimizer: Any, arguments: Any, options: Any) -> None:
    time.sleep(SECONDS)


register_optimizer_step_post_hook(slowly)
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
