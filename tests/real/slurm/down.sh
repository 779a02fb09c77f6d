#!/usr/bin/env bash
# Stops the cluster that up.sh started in BASE: daemons, job steps and what jobs left behind.
#
#   down.sh BASE
#
# All of it lives in one process namespace; its first process takes the rest with it.
set -euo pipefail

base=${1:?usage: down.sh BASE}
[ -f "$base/first.pid" ] || exit 0

read -r pid started outer < "$base/first.pid"
now=$(awk '{print $22}' "/proc/$pid/stat" 2>/dev/null || true)
if [ "$now" = "$started" ]; then
  kill -9 "$pid"
  for _ in $(seq 100); do
    [ -e "/proc/$pid" ] || break
    sleep 0.05
  done
fi
# Who made the namespace usually ends with its first process.
if grep -qsF "$base/first" "/proc/$outer/cmdline"; then
  kill -9 "$outer"
fi
# Slurm leaves its nodes' control groups; only empty ones can be removed.
find /sys/fs/cgroup -depth -type d \
  \( -path '*/slurm_n[0-9]*' -o -path '*/n[0-9]*_slurmstepd.scope*' \) -exec rmdir {} + 2>/dev/null || true
rm -f "$base/first.pid"
