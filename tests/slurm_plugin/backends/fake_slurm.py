"""Both back ends over records in memory in place of Slurm's answers: everything after the RPC is the real thing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.slurm_plugin.backends import extremes
from tiresias.slurm_plugin.backends.commands import CommandsBackend
from tiresias.slurm_plugin.backends.interface import SlurmUnavailable
from tiresias.slurm_plugin.backends.pyslurm import PyslurmBackend, Worker
from tiresias.slurm_plugin.backends.slurm_commands import SlurmCommands

Record = dict[str, Any]


class Answers:
    """What squeue, scontrol and sinfo print of these records."""

    def __init__(self, version: str, jobs: Sequence[Record], nodes: Sequence[Record]) -> None:
        self.version, self.jobs, self.nodes = version, jobs, nodes

    def of(self, *argv: str) -> bytes:
        if argv[:3] == ("scontrol", "show", "config"):
            return f"SLURM_VERSION           = {self.version}\n".encode()
        if "nodes" in argv or argv[0] == "sinfo":
            return json.dumps({"nodes": self.nodes}).encode()
        if argv[0] == "squeue" and "--json" in argv:
            return json.dumps({"jobs": self.jobs}).encode()
        if argv[0] == "squeue":  # record|what shows that it changed
            ids = (one.get("job_id") for one in self.jobs)
            return "".join(f"{job_id}|{place}\n" for place, job_id in enumerate(ids)).encode(errors="replace")
        raise SlurmUnavailable(f"not in memory: {argv}")


class CommandsInMemory(SlurmCommands):
    def __init__(self, answers: Answers) -> None:
        super().__init__(deadline=1.0)
        self._answers = answers

    def call(self, *argv: str) -> bytes:
        return self._answers.of(*argv)


class Commands(CommandsBackend):
    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self._answers, self._slurm = answers, CommandsInMemory(answers)


class Rows(Worker):
    """The pyslurm worker's side of the pipe."""

    def __init__(self, answers: Answers, rows: Sequence[Record]) -> None:
        self._answers, self._rows = answers, rows

    def read(self, verb: str) -> Any:
        if verb == "nodes":
            return json.loads(json.dumps(self._answers.nodes))
        return {"changed": [*map(self._values, self._rows)], "gone": [], "all": True, "unreadable": []}

    def call(self, verb: str, *arguments: object) -> Any:
        return next(self._values(row) for row in self._rows if row["job_id"] == arguments[0])

    @staticmethod
    def _values(row: Record) -> Any:
        return json.loads(json.dumps([row[field] for field in extremes.row_fields()]))

    def row(self, values: Sequence[Any]) -> Record:
        return dict(zip(extremes.row_fields(), values, strict=True))


class Pyslurm(PyslurmBackend):
    def __init__(self, answers: Answers, rows: Sequence[Record]) -> None:
        super().__init__()
        self._answers, self._slurm, self._worker = answers, CommandsInMemory(answers), Rows(answers, rows)
