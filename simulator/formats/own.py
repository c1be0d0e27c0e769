"""Our CSV: `job_id,submit_time,num_gpus,duration[,user,vc,model,status]`, seconds, columns in any order.

It is made for the simulator, so whatever cannot be replayed in it is a mistake: nothing is dropped.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from tiresias.errors import TiresiasError
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.columns import Columns, repeated
from tiresias.simulator.formats.format import Format, has_columns
from tiresias.simulator.formats.source import Source
from tiresias.simulator.formats.table import Layout, Table, read_table, refuse

REQUIRED = ("job_id", "submit_time", "num_gpus", "duration")
OPTIONAL = ("user", "vc", "model", "status")

LAYOUT = Layout(
    numbers={"submit_time": cells.seconds, "num_gpus": cells.gpus, "duration": cells.seconds},
    words={"job_id": cells.ids, **dict.fromkeys(OPTIONAL, cells.words)},
    optional=frozenset(OPTIONAL),
    closed=True,
)


def read(source: Source) -> Columns:
    table = read_table(source, LAYOUT)
    numbers, words = table.numbers, table.words
    _check_ids(source, table)
    user, vc, model, status = (words.get(name, ()) for name in OPTIONAL)
    return Columns(
        words["job_id"], numbers["submit_time"], numbers["num_gpus"], numbers["duration"], user, vc, model, status
    )


def _check_ids(source: Source, table: Table) -> None:
    again = np.flatnonzero(repeated(table.words["job_id"]))
    if len(again):
        name = table.words["job_id"][again[0]]
        first = table.lines[table.words["job_id"].index(name)]
        why = f"was used on line {first} already; give every job an id of its own"
        refuse(source.file, int(table.lines[again[0]]), "job_id", name, why)


def write(rows: Iterable[Iterable[object]], file: Path) -> None:
    """All of it or nothing: rows of REQUIRED and OPTIONAL cells, packed if the file's name ends with .gz."""
    part = file.with_name(f".{file.name}.part")
    try:
        with part.open("wb") as raw:
            packed = (
                gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if file.suffix == ".gz" else raw
            )  # same bytes each time
            with io.TextIOWrapper(cast(BinaryIO, packed), encoding="utf-8", newline="") as text:
                lines = csv.writer(text, lineterminator="\n")
                lines.writerow(REQUIRED + OPTIONAL)
                lines.writerows(rows)
        part.replace(file)
    except OSError as error:
        raise TiresiasError(f"{file}: cannot be written: {error.strerror}") from error


FORMAT = Format("our CSV", lambda head: has_columns(head, "job_id"), read, exact=True)
