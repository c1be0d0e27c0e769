"""The model of Slurm and the programs of the chaos runs lie beside the tests: slurm_model.py, run.py, kills.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
