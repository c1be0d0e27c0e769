"""The formats of traces by their name in `--format`, each with its place.

One more format is one more file and its line in FORMATS, or an installed package that registers a `TraceFormat` as an entry
point of the group `tiresias.trace_formats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiresias.scheduler.registry import Registry

if TYPE_CHECKING:
    from tiresias.simulator.formats.trace_format import TraceFormat

_HERE = "tiresias.simulator.formats"


FORMATS: Registry[TraceFormat] = Registry(  # the first that recognises a file reads it
    "tiresias.trace_formats",
    {
        "philly": f"{_HERE}.philly:FORMAT",
        "helios": f"{_HERE}.helios:FORMAT",
        "acme": f"{_HERE}.acme:FORMAT",
        "pai": f"{_HERE}.pai:FORMAT",
        "openb": f"{_HERE}.openb:FORMAT",
        "symbioticlab": f"{_HERE}.symbioticlab:FORMAT",
        "sacct": f"{_HERE}.sacct_table:FORMAT",
        "sacct-json": f"{_HERE}.sacct_json:FORMAT",
        "csv": f"{_HERE}.own:FORMAT",
    },
    f"{_HERE}.plugin_format:accepted",
)
