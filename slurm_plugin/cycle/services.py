"""The collaborators that live as long as the controller does, whatever its memory of jobs is made anew from."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple, cast

from tiresias.durable.leadership import Leadership
from tiresias.protocol.control import state_controller
from tiresias.scheduler.tenants.guarantees import GuaranteeTracker
from tiresias.slurm_plugin.admission.known_rules import KnownRules
from tiresias.slurm_plugin.backends.budget import Budgeted
from tiresias.slurm_plugin.backends.interface import Backend
from tiresias.slurm_plugin.calls.traffic import Traffic, bucket
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.comments.writer import CommentWriter
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.cycle.cycle_times import CycleTimes
from tiresias.slurm_plugin.cycle.decision_log import DecisionLog
from tiresias.slurm_plugin.failover.fence import FencedBackend
from tiresias.slurm_plugin.observation.batch_scripts import BatchScripts
from tiresias.slurm_plugin.observation.profiles import Profiles
from tiresias.slurm_plugin.observation.scripts import KnownScripts
from tiresias.slurm_plugin.sockets.privacy import Privacy
from tiresias.slurm_plugin.sockets.publication import Publisher
from tiresias.slurm_plugin.state.intents import Intent
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.quarantine import Quarantine
from tiresias.slurm_plugin.transitions.allowance import Allowance

log = logging.getLogger("tiresias")


class ServiceEvents(NamedTuple):
    """What the services call.

    Attributes:
        rules_changed: one of Slurm's rules is another one than before.
        progress: some of a long cycle's work is done.
        publishes: a cycle is about to be published; returns alarms of what runs this controller.
    """

    rules_changed: Callable[[], None]
    progress: Callable[[], None]
    publishes: Callable[[], Collection[str]]


@dataclass(frozen=True, slots=True)
class Services:
    """Attributes:
    backend: fenced, and within the budget of calls.
    clock: epoch seconds.
    """

    journal: Journal
    leadership: Leadership
    backend: Backend
    allowance: Allowance
    traffic: Traffic
    rules: KnownRules
    quarantine: Quarantine
    scripts: KnownScripts
    profiles: Profiles
    publisher: Publisher
    decisions: DecisionLog
    guarantees: GuaranteeTracker
    times: CycleTimes
    clock: Callable[[], float]
    events: ServiceEvents

    def comment_writer(self, config: Config, site: Site, intents: Callable[[], Collection[Intent]]) -> CommentWriter:
        """Return one that uses the calls that the open intents do not need."""
        may_administer = site.rights.may_administer(os.geteuid())
        return CommentWriter(config.comment, self.backend, may_administer, lambda: self.allowance.spare(intents()))


def assemble(
    config: Config,
    backend: Backend,
    journal: Journal,
    leadership: Leadership,
    site: Site,
    clock: Callable[[], float],
    events: ServiceEvents,
) -> tuple[Services, Budgeted]:
    """Return the services, and the back end within its budget of calls."""
    scripts = KnownScripts(backend, config.paths.control)
    budgeted = Budgeted(cast(Backend, scripts), bucket(config.rpc, site.rate_limit))
    fenced = FencedBackend(budgeted, leadership, journal)
    allowance = Allowance(budgeted.bucket, budgeted.prices)
    scripts.batch_scripts = BatchScripts(budgeted.batch_script, lambda: allowance.spare(()))
    services = Services(
        journal=journal,
        leadership=leadership,
        backend=fenced,
        allowance=allowance,
        traffic=Traffic(budgeted),
        rules=KnownRules(fenced.rules, events.rules_changed),
        quarantine=Quarantine(),
        scripts=scripts,
        profiles=Profiles(config.paths.control),
        publisher=Publisher(journal.path, Privacy(site.private, site.rights.overseers | {os.geteuid()})),
        decisions=DecisionLog(journal),
        guarantees=GuaranteeTracker(),
        times=CycleTimes(clock()),
        clock=clock,
        events=events,
    )
    return services, budgeted


def write_versions(config: Config) -> None:
    """Write the versions of the control protocol that this controller uses where supervisors read them."""
    if not config.acts:
        return
    try:
        state_controller(config.paths.control)
    except OSError as error:
        reason = error.strerror or error
        log.warning("%s: %s; jobs assume version 1 of the control protocol", config.paths.control, reason)
