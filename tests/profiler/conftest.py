"""Programs and writers that several tests share lie in the same folder: recording.py, tensors.py, trials.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
