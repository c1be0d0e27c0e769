"""The programs and their launcher lie beside the tests: jobs.py, trainee.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
