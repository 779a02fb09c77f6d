#!/usr/bin/env bash
# Starts a real Slurm, runs the tests against it and stops it, whatever comes of them.
#
#   run.sh SUITE [PYTEST ARGUMENTS]     SUITE: trixie (Slurm 24.11) or forky; all tests by default
#
# DISPATCH_SLURM_HOME (/var/tmp/dispatch-slurm) keeps the installed Slurms for the next run.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=${1:?usage: run.sh SUITE [PYTEST ARGUMENTS]}
shift
home=${DISPATCH_SLURM_HOME:-/var/tmp/dispatch-slurm}
mkdir -p "$home"

exec 9>"$home/lock"
flock 9   # one cluster at a time: they share ports
"$here/rootfs.sh" "$home/$suite" "$suite"
# Nothing that is started may inherit the lock, or a daemon would keep it.
# After a failure the logs stay, to be looked at.
trap 'code=$?; "$here/down.sh" "$home/run"; [ "$code" -ne 0 ] || rm -rf --one-file-system "${home:?}/run"' EXIT
"$here/up.sh" "$home/run" "$home/$suite" 9>&-
cd "$here/../../.."
if [ $# -eq 0 ]; then
  set -- "$here"
  # In-place requeue came after 24.11; its tests are for the Slurm that has it.
  [ "$suite" != trixie ] || set -- "$here" "--ignore=$here/next"
fi
DISPATCH_SLURM_ENV="$home/run/env" .venv/bin/python -m pytest "$@" 9>&-
