"""A training program of someone else whose steps take some time: python paced.py SECONDS PROGRAM [ARGUMENTS]

What it computes is the same. How many steps fit between two preemptions no longer depends on the machine alone.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from typing import Any

from shared_gpu import variables  # type: ignore[import-not-found]
from torch.optim.optimizer import register_optimizer_step_post_hook

os.environ |= variables(os.environ.get("RANK") or os.environ.get("SLURM_PROCID", "0"))
SECONDS = float(sys.argv[1])


def slowly(optimizer: Any, arguments: Any, options: Any) -> None:
    time.sleep(SECONDS)


register_optimizer_step_post_hook(slowly)
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
