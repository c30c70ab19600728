#!/bin/sh
# Slurm's Epilog: says that a job has ended on this node. As prolog.sh: always 0, no other program, nobody to wait for.
place="/run/cohabit/node/${SLURMD_NODENAME:-none}"
if [ -d "$place" ] && [ -n "$SLURM_JOB_ID" ]; then
  printf 'complete\n' > "$place/$SLURM_JOB_ID.ended"
fi 2> /dev/null
exit 0
