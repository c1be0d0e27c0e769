"""docs/examples/service.py with Adam in the place of SGD: adam_example.py [STEPS]."""

from __future__ import annotations

import runpy
from pathlib import Path

import torch

torch.optim.SGD = lambda parameters, lr, momentum: torch.optim.Adam(parameters, lr)
runpy.run_path(str(Path(__file__).parents[3] / "docs/examples/service.py"), run_name="__main__")
