"""A training program of someone else with one slow rank: python straggling.py RANK FAST SLOW PROGRAM [ARGUMENTS]

That rank's steps take SLOW seconds longer, those of the others FAST seconds. Ranks report their own work every second.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from tiresias.checkpoint import program_report
from tiresias.protocol import rank_files

rank, fast, slow = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
seconds = slow if int(os.environ["RANK"]) == rank else fast


def slowly(optimizer: Any, arguments: Any, options: Any) -> None:
    time.sleep(seconds)


rank_files.WORK_S, program_report.PROGRESS_S = 1.0, 0.5
register_optimizer_step_post_hook(slowly)
sys.argv = sys.argv[4:]
runpy.run_path(sys.argv[0], run_name="__main__")
