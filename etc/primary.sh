#!/bin/sh
# SlurmctldPrimaryOnProg: the backup slurmctld of this host has become the primary one. If the Tiresias controller of this host is the
# standby, it requests the lead, and the leader hands it over with all operations in progress. SlurmctldPrimaryOffProg is not needed.
# This script never waits or fails.
file=${TIRESIAS_PRIMARY:-/run/tiresias/primary}
[ -f "$file" ] && printf . >>"$file" 2>/dev/null
exit 0
