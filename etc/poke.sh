#!/bin/sh
# EpilogSlurmctld: tells the tiresias daemon at once that a job ended.
# One datagram that never fails and never waits long: when the daemon hangs, its queue of 10 is full and a send would block.
# Without a daemon this costs a few milliseconds.
# Not for PrologSlurmctld: a slurmctld that is stopped while it waits for a prolog never launches that job, and sees only half an
# hour later that it does not run. The daemon looks by itself whether what it started runs.
timeout 0.2 logger --socket-errors=off -d -u "${TIRESIAS_POKE_SOCKET:-/run/tiresias/poke.sock}" -- poke >/dev/null 2>&1
exit 0
