#!/bin/sh -p
# Slurm's Prolog: says that a job begins on this node. Always ends with 0, starts no other program, waits for nobody:
# it writes one small file into a folder in memory, which the node's daemon (cohabit node serve) made. No folder, no file.
# Root runs this: PATH is fixed, names are checked, and the folder must be root's own.
set -eu
trap 'exit 0' EXIT
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
unset IFS CDPATH ENV BASH_ENV
case "${SLURMD_NODENAME:-}" in '' | .* | *[!A-Za-z0-9._-]*) exit 0 ;; esac
case "${SLURM_JOB_ID:-}" in '' | *[!0-9]*) exit 0 ;; esac
place="/run/cohabit/node/$SLURMD_NODENAME"
if [ -d "$place" ] && [ -O "$place" ]; then
  printf 'uid=%s\narray=%s\ntask=%s\nconf=%s\ncomplete\n' "${SLURM_JOB_UID:-}" "${SLURM_ARRAY_JOB_ID:-}" \
    "${SLURM_ARRAY_TASK_ID:-}" "${SLURM_CONF:-}" > "$place/$SLURM_JOB_ID"
fi 2> /dev/null
