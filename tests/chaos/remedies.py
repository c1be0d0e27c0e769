"""What all troubles of a chaos run share: the scene, the seeded generator, what is broken at present, and later remedies."""

from __future__ import annotations

import itertools
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable

from tests.chaos.scene import Scene
from tests.chaos.windows import Windows
from tiresias.errors import TiresiasError

Remedy = Callable[[], object]
SEEN_AFTER = 20.0  # seconds after a change in which its consequences come to an end


class Remedies:
    """Harm that is undone later, and the times that explain what the controller could not see.

    Attributes:
        blind: Times (from, to) in epoch seconds in which the controller could not see Slurm; ends in them are less exact.
        ahead: Times in which a clock that was set back let ends of runs lie ahead of it: the journal has earlier ones.
        absent: Times (from, to) in which slurmctld was away.
        shaken: Names of jobs of which Slurm itself lost something: those in its memory when it was killed.
        unlisted: Times (from, to) in which slurmctld accepted jobs that it lost when it was killed, and that `shaken` lacks.
        changes: What else was done, to which job, user or node.
        bad_nodes: Nodes that were down or drained, each with its times (from, to).
        counts: Troubles so far, by name.
    """

    def __init__(self, scene: Scene, seed: int, report: Callable[[str], None]) -> None:
        self.scene, self.counts, self.blind = scene, Counter[str](), list[tuple[float, float]]()
        self.ahead: list[tuple[float, float]] = []
        self.absent, self.unlisted = list[tuple[float, float]](), list[tuple[float, float]]()
        self.changes = Windows()
        self.bad_nodes = list[tuple[str, float, float]]()
        self.shaken = set[str]()
        self._dice, self._report = random.Random(seed), report
        self._remedies: list[tuple[float, int, str, Remedy]] = []
        self._order = itertools.count()
        self._lifted = dict[tuple[str, str], float]()  # when an admin lifted an admin's hold of a job (id, name)
        self._forgotten = set[tuple[str, str]]()  # jobs whose lifted hold a killed slurmctld may have forgotten
        self._away: set[str] = set()  # what is broken already is not broken again

    def later(self, seconds: float, what: str, remedy: Remedy) -> None:
        self._remedies.append((time.time() + seconds, next(self._order), what, remedy))

    def remedy_what_is_due(self, all_of_it: bool = False) -> None:
        now = time.time()
        due = [one for one in sorted(self._remedies) if all_of_it or one[0] <= now]
        self._remedies = [one for one in self._remedies if one not in due]
        for _, _, what, remedy in due:
            try:
                remedy()
                self._report(f"over: {what}")
            except (TiresiasError, subprocess.TimeoutExpired, OSError) as error:
                self._report(f"not over yet: {what}: {str(error)[-60:]}")
                self.later(2.0, what, remedy)

    def _is_due_later(self, what: str) -> bool:
        return any(name == what for _, _, name, _ in self._remedies)

    def _while_blind(self, seconds: float, what: str, remedy: Remedy) -> None:
        self.blind.append((time.time() - 1, time.time() + seconds + 10))
        self.later(seconds, what, remedy)

    def _breaks(self, what: str) -> bool:
        """Mark as broken; False where it is broken already."""
        if what in self._away:
            return False
        self._away.add(what)
        return True

    def _mend_later(self, seconds: float, what: str, remedy: Remedy, label: str = "") -> None:
        self.later(seconds, label or what, self._mending(what, remedy))

    def _mending(self, what: str, remedy: Remedy) -> Remedy:
        """Return the remedy of what `_breaks` marked, which marks it as whole when it has succeeded."""

        def mend() -> None:
            try:
                remedy()
            except TiresiasError as error:
                # an invalid state: it is up, for a slurmctld that was killed forgot that it was down
                if "Invalid node state" not in str(error):
                    raise
            self._away.discard(what)

        return mend

    def _befalls(self, name: str, seconds: float = SEEN_AFTER) -> None:
        self.changes.add(time.time() - 1, time.time() + seconds, name)
