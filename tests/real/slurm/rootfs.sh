#!/usr/bin/env bash
# Makes a directory that holds a whole Slurm (daemons, accounting, MariaDB) for chroot.
#
#   rootfs.sh DIR [SUITE]     SUITE: trixie (Slurm 24.11, the default) or forky (newer, it moves)
#
# A complete DIR of the same recipe is left as it is. Needs root and a Debian mirror.
set -euo pipefail

dir=${1:?usage: rootfs.sh DIR [SUITE]}
suite=${2:-trixie}
recipe="6 $suite"
stamp="$dir/.dispatch-slurm"

if [ "$(cat "$stamp" 2>/dev/null)" = "$recipe" ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "rootfs.sh: a chroot needs root" >&2
  exit 1
fi
if ! command -v mmdebstrap >/dev/null; then
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends mmdebstrap >/dev/null
fi

# The mirror this machine's own apt uses, unless DEBIAN_MIRROR says otherwise.
mirror=${DEBIAN_MIRROR:-}
if [ -z "$mirror" ]; then
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
    | grep -v -e security -e updates | sort -u | head -n 1 || true)
fi
mirror=${mirror:-http://deb.debian.org/debian/}

# An unfinished directory is made anew; nothing may be mounted in it when it is removed.
if [ -e "$dir" ]; then
  if grep -q " $(readlink -f "$dir")/" /proc/mounts; then
    echo "rootfs.sh: something is mounted under $dir: stop the cluster first" >&2
    exit 1
  fi
  rm -rf --one-file-system "$dir"
fi
mkdir -p "$(dirname "$dir")"

packages=slurmctld,slurmd,slurmrestd,slurmdbd,slurm-client,slurm-wlm-jwt-plugin
packages+=,slurm-wlm-mysql-plugin,munge,mariadb-server
# A suite in development is often served from a mirror whose Release file has run out.
mmdebstrap --quiet --variant=minbase --include="$packages" \
  --aptopt='Acquire::Check-Valid-Until "false"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  "$suite" "$dir" "$mirror"

# slurmdbd gives up on an answer of the 11.8 client library (error 5027); 10.11's serves it.
mkdir -p "$dir/opt/libmariadb"
echo "deb $mirror bookworm main" > "$dir/opt/libmariadb/sources.list"
chroot "$dir" sh -euc '
  cd /opt/libmariadb
  mkdir -p lists/partial cache/archives/partial
  set -- -qq -o Dir::Etc::SourceList=/opt/libmariadb/sources.list -o Dir::Etc::SourceParts=/none \
    -o Dir::State::Lists=/opt/libmariadb/lists -o Dir::Cache=/opt/libmariadb/cache \
    -o APT::Sandbox::User=root
  apt-get "$@" update
  apt-get "$@" download libmariadb3/bookworm
  dpkg-deb -x libmariadb3_*.deb tree
  cp -L tree/usr/lib/*/libmariadb.so.3 .
  rm -rf lists cache tree libmariadb3_*.deb'

chroot "$dir" useradd --no-create-home --no-user-group --gid nogroup --home-dir /tmp \
  --shell /bin/bash trainer
chroot "$dir" useradd --no-create-home --no-user-group --gid nogroup --home-dir /tmp \
  --shell /bin/bash other
chroot "$dir" useradd --system --no-create-home --no-user-group --gid nogroup \
  --shell /usr/sbin/nologin restd
echo "$recipe" > "$stamp"
