"""Fail open: all that waits for us is Slurm's again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from tiresias.slurm_plugin.backends.protocol import JobRefused, NoSuchJob, SlurmJob, SlurmUnavailable
from tiresias.slurm_plugin.cluster.arrays import together
from tiresias.slurm_plugin.moves.hands import Hands
from tiresias.slurm_plugin.state.database import StateError
from tiresias.slurm_plugin.state.quarantine import OF_ALL_JOBS


class Releasing(Hands):
    """Of a controller that stops, or of one that acts for a dead one."""

    def release_all(self, now: float, set_aside: Callable[[SlurmJob], bool] = lambda job: False) -> list[str]:
        """Fail open: lift every hold and pin that is ours, and the wait of new jobs that were `set_aside` for us. Returns what
        could not be lifted, one line each."""
        problems = []
        for intent in list(self.intents.values()):
            with suppress(StateError):
                self._finish(intent, "released: the controller stops", now)
        self._release_together(lambda job: set_aside(job) and job.begin_time > now)
        for row in [row for row in self._ledger.jobs.values() if row.held or (row.pinned and not self._runs(row.id))]:
            self.progress()
            try:
                self._release(row.id)
            except (NoSuchJob, StateError):  # our holds go, whether or not that can be written down
                pass
            except (JobRefused, SlurmUnavailable) as error:
                problems.append(f"job {row.id} stays held: {error}; scontrol release {row.id}")
            except OF_ALL_JOBS:
                raise
            except Exception as error:  # a defect that this job meets must not keep others held
                self._quarantine.add("its release", error, row.id)
                problems.append(f"job {row.id}: {type(error).__name__}: {error}; scontrol release {row.id}")
        return problems

    def _release_together(self, sits_out: Callable[[SlurmJob], bool]) -> None:
        """Those that wait for nothing but us and never ran: the most by far, with one call for each record of Slurm's. What goes
        wrong here is left to those who come one by one."""
        with suppress(SlurmUnavailable, JobRefused, StateError):
            jobs, rows = self._ledger.apply(self._backend.snapshot()), self._ledger.jobs
            self._find_forgotten_releases(jobs)
            new = [job for job in jobs if job.state == "PENDING" and not job.restarts]
            for name, several in together(job for job in new if sits_out(job)).items():
                self.progress()
                with self._quarantine.guard("its release", *_ids(several)), suppress(JobRefused):  # it has ended
                    self._backend.begin_now(name)
            ours = [job for job in new if job.held_by_admin and rows[job.id].held and not rows[job.id].pinned]
            for name, several in together(ours).items():
                self.progress()
                with self._quarantine.guard("its release", *_ids(several)), suppress(JobRefused):
                    self._backend.lift(name)
                    with self._journal.batch():
                        for job in several:
                            self._remember_release(rows[job.id])


def _ids(jobs: Iterable[SlurmJob]) -> list[str]:
    return [job.id for job in jobs]
