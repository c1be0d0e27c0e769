"""The formats of traces by their name in `--format`, as `scheduler/stages.py` lists them.

One more format is one more file and its line there, or an installed package that registers a `TraceFormat` as an entry point of the
group `tiresias.trace_formats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiresias.scheduler import stages

if TYPE_CHECKING:
    from tiresias.scheduler.registry import Registry
    from tiresias.simulator.formats.trace_format import TraceFormat

FORMATS: Registry[TraceFormat] = stages.TRACE_FORMATS
