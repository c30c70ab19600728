#!/bin/sh
# Slurm's Prolog: says that a job begins on this node. Always ends with 0, starts no other program, waits for nobody:
# it writes one small file into a folder in memory, which the node's daemon (cohabit node serve) made. No folder, no file.
place="/run/cohabit/node/${SLURMD_NODENAME:-none}"
if [ -d "$place" ] && [ -n "$SLURM_JOB_ID" ]; then
  printf 'uid=%s\narray=%s\ntask=%s\nconf=%s\ncomplete\n' "$SLURM_JOB_UID" "$SLURM_ARRAY_JOB_ID" \
    "$SLURM_ARRAY_TASK_ID" "$SLURM_CONF" > "$place/$SLURM_JOB_ID"
fi 2> /dev/null
exit 0
