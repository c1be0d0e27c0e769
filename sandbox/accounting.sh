#!/bin/sh
# Starts MariaDB and slurmdbd inside a private cluster and makes its accounts: alice and bob may submit, tiresias is an
# Operator. Argument: the cluster's name. Runs before slurmctld, which reads all of it at its start.
set -eu
cluster=$1

install -d -o slurm -m 0755 /run/mysqld
chown slurm:slurm /var/lib/mysql /etc/slurm/slurmdbd.conf
as_slurm="setpriv --reuid slurm --regid slurm --clear-groups"
# MariaDB runs as the Unix user slurm, which is also its administrator: there are no passwords.
$as_slurm mariadb-install-db --no-defaults --datadir=/var/lib/mysql --skip-test-db --skip-name-resolve \
  --auth-root-authentication-method=socket --auth-root-socket-user=slurm >/var/log/slurm/mariadb.log 2>&1
# slurmdbd could create its database, but its second connection fails in libmariadb 3.4.10 ("maximum allowed number
# of columns (=0)"): a handle that was refused once loses its limits.
echo 'CREATE DATABASE slurm_acct_db;' > /run/mysqld/init.sql
# The database exists as long as the cluster: flushes to disk are not awaited.
$as_slurm mariadbd --no-defaults --datadir=/var/lib/mysql --socket=/run/mysqld/mysqld.sock --skip-networking --init-file=/run/mysqld/init.sql \
  --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 --loose-innodb-snapshot-isolation=OFF >>/var/log/slurm/mariadb.log 2>&1 &

wait_for() { # seconds, what, command ...
  left=$(($1 * 10)); what=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { echo "error: $what does not start" >&2; exit 1; }
    sleep 0.1
  done
}
wait_for 60 MariaDB test -S /run/mysqld/mysqld.sock
slurmdbd
wait_for 60 slurmdbd sacctmgr -n list cluster
sacctmgr -i add cluster "$cluster"
sacctmgr -i add account science
sacctmgr -i add user alice,bob account=science
sacctmgr -i add user tiresias account=science adminlevel=operator
