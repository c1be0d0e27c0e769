"""The formats of traces, a file each. One more format is one more file and its line in FORMATS."""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.simulator.formats import (
    acme,
    helios,
    openb,
    own,
    pai,
    philly,
    sacct_json,
    sacct_table,
    symbioticlab,
)
from tiresias.simulator.formats.trace_format import TraceFormat

FORMATS: Mapping[str, TraceFormat] = {  # the first that recognises a file reads it
    "philly": philly.FORMAT,
    "helios": helios.FORMAT,
    "acme": acme.FORMAT,
    "pai": pai.FORMAT,
    "openb": openb.FORMAT,
    "symbioticlab": symbioticlab.FORMAT,
    "sacct": sacct_table.FORMAT,
    "sacct-json": sacct_json.FORMAT,
    "csv": own.FORMAT,
}
