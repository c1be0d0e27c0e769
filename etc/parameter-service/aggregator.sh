#!/bin/sh
# The batch script of an aggregator of the parameter service; the manager submits it with the aggregator's number.
# Copy it to the key `script` of manager.json, and adapt the folder and the memory: less than memory_mib there.
set -eu
service=/shared/tiresias/service
memory_mib=7168
: "${AGGREGATOR_PROGRAM:=/usr/libexec/slurm-tiresias/aggregator}"

umask 077
folder=/dev/shm/tiresias-aggregator-$(id -u)-$1
mkdir -p "$folder"
cat > "$folder/config.json" <<END
{"listen": "$(uname -n):0", "state": "$folder/state", "service_key_file": "$service/key", "memory_mib": $memory_mib,
 "announce": "$service/announce/$1.json"}
END
# An aggregator that Slurm ends has handed its tensors over. One that is killed finds them here when it starts on this node again.
trap '' TERM
$AGGREGATOR_PROGRAM "$folder/config.json"
rm -rf "$folder"
