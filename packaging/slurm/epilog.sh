#!/bin/sh -p
# Slurm's Epilog: says that a job has ended on this node. As prolog.sh: always 0, no other program, nobody to wait for.
set -eu
trap 'exit 0' EXIT
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
unset IFS CDPATH ENV BASH_ENV
case "${SLURMD_NODENAME:-}" in '' | .* | *[!A-Za-z0-9._-]*) exit 0 ;; esac
case "${SLURM_JOB_ID:-}" in '' | *[!0-9]*) exit 0 ;; esac
place="/run/cohabit/node/$SLURMD_NODENAME"
if [ -d "$place" ] && [ -O "$place" ]; then
  printf 'complete\n' > "$place/$SLURM_JOB_ID.ended"
fi 2> /dev/null
