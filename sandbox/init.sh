#!/bin/sh
# The first program inside a private cluster: starts munged, slurmctld and one slurmd per node, then sleeps.
# Arguments: the daemon user, then the node names. When it ends, the kernel ends everything in the namespace.
set -eu
daemon_user=$1; shift

# The starting process may be killed before it has recorded the cluster; an unrecorded cluster could never be stopped.
left=500
until [ -e /etc/slurm/recorded ]; do
  left=$((left - 1))
  [ "$left" -gt 0 ] || { echo "error: this cluster was not recorded within 10 s" >&2; exit 1; }
  sleep 0.02
done

for user in tiresias alice bob; do chown "$user:$user" "/home/$user"; done
chown -R munge:munge /etc/munge
install -d -o munge -g munge -m 0755 /run/munge
install -d -o slurm -g slurm -m 0755 /run/slurm /var/spool/slurm /var/spool/slurm/ctld
for log in slurmctld slurmdbd; do install -o slurm -m 0644 /dev/null "/var/log/slurm/$log.log"; done # readable for the starting user
install -d -o "$daemon_user" -m 0755 /run/tiresias /var/lib/tiresias
chmod 1777 /run/bytecode # other clusters of this suite use it, too
for user in root slurm tiresias alice bob munge; do install -d -o "$user" -m 0755 "/run/bytecode/$user"; done
setpriv --reuid munge --regid munge --clear-groups munged --num-threads=4 --log-file=/var/log/slurm/munged.log
if [ -e /etc/slurm/slurmdbd.conf ]; then
  sh /etc/slurm/accounting.sh "$(sed -n 's/^ClusterName=//p' /etc/slurm/slurm.conf)"
fi
slurmctld
for node in "$@"; do
  mkdir -p "/var/spool/slurm/$node"
  slurmd -N "$node"
done
exec sleep infinity
