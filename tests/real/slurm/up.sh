#!/usr/bin/env bash
# Starts a whole Slurm on this host, from the directory that rootfs.sh made, and waits for it.
#
#   up.sh BASE ROOTFS
#
# BASE gets the state, logs, keys and `env` (what a client needs). Environment:
#   NODES=4 CPUS=4 MEMORY_MB=8000   pretended nodes n1…
#   PORT=17800                      first of 10 + NODES loopback ports
#   MIN_JOB_AGE=300                 seconds until slurmctld forgets an ended job
#
# One mount, process and host-name namespace holds everything, so that nothing is left mounted or
# running when its first process ends (down.sh). The network is the host's loopback.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
base=$(mkdir -p "${1:?usage: up.sh BASE ROOTFS}" && readlink -f "$1")
rootfs=$(readlink -f "${2:?usage: up.sh BASE ROOTFS}")
nodes=${NODES:-4} cpus=${CPUS:-4} memory=${MEMORY_MB:-8000} port=${PORT:-17800}
ctld_port=$port dbd_port=$((port + 1)) db_port=$((port + 2)) rest_port=$((port + 3))
first_node_port=$((port + 10)) last_node_port=$((port + 9 + nodes))

if [ "$(id -u)" -ne 0 ]; then
  echo "up.sh: namespaces and chroot need root" >&2
  exit 1
fi
"$here/down.sh" "$base"
rm -rf --one-file-system "${base:?}"/*
mkdir -p "$base"/{state,spool,log,db,work}
chmod 755 "$base"
work=$base/work
chmod 1777 "$work"
dd if=/dev/urandom of="$base/jwt.key" bs=32 count=1 status=none
dd if=/dev/urandom of="$base/slurm.key" bs=1024 count=1 status=none

if [ -d /sys/fs/cgroup/memory ]; then
  cgroup=cgroup/v1
else
  cgroup=cgroup/v2
fi
cat > "$base/cgroup.conf" <<C
CgroupPlugin=$cgroup
IgnoreSystemd=yes
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedSwapSpace=0
C

cat > "$base/slurm.conf" <<C
ClusterName=proving
SlurmctldHost=proving(127.0.0.1)
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/slurm
CredType=auth/slurm
AuthInfo=cred_expire=5
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$base/jwt.key
SlurmctldPort=$ctld_port
SlurmctldPidFile=$base/state/slurmctld.pid
SlurmctldLogFile=$base/log/slurmctld.log
StateSaveLocation=$base/state
SlurmdPidFile=$base/spool/slurmd.%n.pid
SlurmdLogFile=$base/log/slurmd.%n.log
SlurmdSpoolDir=$base/spool/%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=50
GresTypes=gpu
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
Prolog=$base/prolog
PrologFlags=Alloc
MinJobAge=${MIN_JOB_AGE:-300}
SlurmdTimeout=10
KillWait=2
ReturnToService=2
InactiveLimit=0
JobRequeue=1
MaxJobCount=20000
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$dbd_port
AccountingStoreFlags=job_comment,job_extra
AccountingStorageEnforce=associations,limits,qos
NodeName=n[1-$nodes] NodeHostname=proving NodeAddr=127.0.0.1 Port=[$first_node_port-$last_node_port] CPUs=$cpus RealMemory=$memory Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
PartitionName=closed Nodes=ALL State=DOWN
PartitionName=small Nodes=ALL MaxNodes=1 MaxTime=2
C
cat > "$base/gres.conf" <<C
AutoDetect=off
NodeName=n[1-$nodes] Name=gpu File=/dev/null
NodeName=n[1-$nodes] Name=gpu File=/dev/zero
C
# A node named in this file fails its prolog.
cat > "$base/prolog" <<C
#!/bin/sh
! grep -qx "\$SLURMD_NODENAME" "$work/failing-prologs" 2>/dev/null
C
chmod 755 "$base/prolog"
cat > "$base/slurmdbd.conf" <<C
AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$base/jwt.key
DbdHost=proving
DbdAddr=127.0.0.1
DbdPort=$dbd_port
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$db_port
StorageUser=slurm
StoragePass=proving
StorageLoc=slurm_acct
PidFile=$base/state/slurmdbd.pid
LogFile=$base/log/slurmdbd.log
C

# What starts one daemon, used here and by the tests that kill one. Runs inside.
cat > "$base/start" <<C
#!/bin/bash
export SLURM_CONF=$base/slurm.conf
case \$1 in
  mariadbd)
    exec setsid --fork mariadbd --no-defaults --user=mysql --datadir=$base/db --socket=$base/db/socket \\
      --port=$db_port --bind-address=127.0.0.1 --skip-name-resolve \\
      --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M \\
      --loose-innodb-snapshot-isolation=OFF ;;
  slurmdbd)
    [ -d /opt/libmariadb ] && export LD_LIBRARY_PATH=/opt/libmariadb
    exec setsid --fork slurmdbd -D ;;
  slurmctld) exec setsid --fork slurmctld -D ;;
  slurmrestd)
    export SLURM_JWT=daemon
    exec setsid --fork runuser -u restd -- slurmrestd -s slurmctld,slurmdbd -a rest_auth/jwt \\
      127.0.0.1:$rest_port ;;
  n*) exec setsid --fork slurmd -D -N "\$1" ;;
esac
C

# The first process of the namespace: makes it a home, then only waits for what it inherits.
cat > "$base/first" <<C
#!/bin/bash
set -eu
hostname proving
mount -t proc proc "$rootfs/proc"
mount -t tmpfs tmpfs "$rootfs/run"
mount -t tmpfs tmpfs "$rootfs/tmp"
chmod 1777 "$rootfs/tmp"
mkdir -p "$rootfs/run/slurmctld" "$rootfs/run/slurmdbd" "$rootfs/run/mysqld"
chroot "$rootfs" chown slurm:slurm /run/slurmctld /run/slurmdbd
mount --rbind /sys "$rootfs/sys"
mount --rbind /dev "$rootfs/dev"
mkdir -p "$rootfs$base"
mount --bind "$base" "$rootfs$base"
printf '127.0.0.1 localhost proving\n' > "$base/hosts"
touch "$rootfs/etc/hosts"
mount --bind "$base/hosts" "$rootfs/etc/hosts"
chroot "$rootfs" chown slurm:slurm "$base/jwt.key" "$base/slurm.key" "$base/slurmdbd.conf" \\
  "$base/state" "$base/log"
chroot "$rootfs" chown mysql:mysql "$base/db"
chmod 600 "$base/jwt.key" "$base/slurm.key" "$base/slurmdbd.conf"
touch "$base/ready"
while :; do sleep 3600 & wait \$! || true; done
C
chmod 755 "$base/start" "$base/first"

setsid unshare --mount --propagation private --pid --uts --fork --kill-child=KILL \
  bash "$base/first" </dev/null >"$base/log/first.log" 2>&1 &
outer=$!
for _ in $(seq 100); do
  [ -e "$base/ready" ] && break
  sleep 0.05
done
[ -e "$base/ready" ] || { cat "$base/log/first.log" >&2; exit 1; }
first=$(tr -d ' ' < "/proc/$outer/task/$outer/children")
echo "$first $(awk '{print $22}' "/proc/$first/stat") $outer" > "$base/first.pid"

inside() { nsenter --target "$first" --mount --pid --uts chroot "$rootfs" env SLURM_CONF="$base/slurm.conf" "$@"; }
start() { inside "$base/start" "$1" </dev/null >"$base/log/$1.out" 2>&1; }
fail() {
  echo "up.sh: $1 didn't come up" >&2
  tail -n 5 "$base/log/$2" >&2 || true
  "$here/down.sh" "$base"
  exit 1
}
until_true() {
  local name=$1 log=$2
  shift 2
  for _ in $(seq 300); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  fail "$name" "$log"
}

inside mariadb-install-db --no-defaults --user=mysql --datadir="$base/db" --skip-test-db \
  --auth-root-authentication-method=normal >"$base/log/mariadb-install.out" 2>&1
start mariadbd
sql() { inside mariadb --no-defaults --user=root --socket="$base/db/socket" -e "$1"; }
until_true MariaDB mariadbd.out sql "select 1"
sql "create user slurm@'127.0.0.1' identified by 'proving'; grant all on slurm_acct.* to slurm@'127.0.0.1'"
start slurmdbd
until_true slurmdbd slurmdbd.log inside sacctmgr -n -i list cluster
add_to_accounting() { inside sacctmgr -i -Q add "$@" >>"$base/log/sacctmgr.out"; }
add_to_accounting cluster proving
add_to_accounting qos brief set MaxWall=00:10:00
add_to_accounting account physics Description=physics
add_to_accounting user trainer account=physics qos=normal,brief
add_to_accounting user other account=physics
add_to_accounting user root account=physics
start slurmctld
until_true slurmctld slurmctld.log inside scontrol ping
for n in $(seq "$nodes"); do
  mkdir -p "$base/spool/n$n"
  start "n$n"
done
start slurmrestd
until_true slurmrestd slurmrestd.out bash -c "exec 3<>/dev/tcp/127.0.0.1/$rest_port"
all_idle() { [ "$(inside sinfo -h -N -p main -o %T | grep -c '^idle$')" -eq "$nodes" ]; }
until_true "the nodes" slurmctld.log all_idle

cat > "$base/env" <<C
DISPATCH_SLURM_BASE=$base
DISPATCH_SLURM_ROOTFS=$rootfs
DISPATCH_SLURM_FIRST=$first
DISPATCH_SLURM_URL=http://127.0.0.1:$rest_port
DISPATCH_SLURM_RELEASE=$(inside slurmctld -V | awk '{print $2}')
C
cat "$base/env"
