#!/bin/sh
# SlurmctldPrimaryOnProg: the backup slurmctld of this host has become the primary one. If the Tiresias controller of this host stands
# by, it asks for the lead, and the other one hands it over with all that is under way. SlurmctldPrimaryOffProg is not needed.
# Nothing here waits or fails.
file=${TIRESIAS_PRIMARY:-/run/tiresias/primary}
[ -f "$file" ] && printf . >>"$file" 2>/dev/null
exit 0
