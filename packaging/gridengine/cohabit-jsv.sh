#!/bin/bash -p
# Holds batch jobs for Cohabit, for as long as its lease runs: a server job submission verifier (jsv(1)). Set LEASE, and in
# `qconf -mconf`: jsv_url script:sgeadmin@/etc/cohabit/gridengine/cohabit-jsv.sh and jsv_allowed_mod ac,h,q,l,... (docs/gridengine.md).
# Without a lease, or when it is over, every job goes to plain Grid Engine at once.
#
# The lease is one line: until when (Unix time), the queues, separated by commas, and whom Cohabit runs as (uid). Grid
# Engine keeps this script running and asks it about every job: it uses nothing but the shell itself, reads that one small
# file (and, for jobs with mates, one more beside it) and asks nobody.

# A verifier that ends makes Grid Engine refuse jobs: unset names are errors (-u), a step that fails is not (no -e).
set -u
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
unset IFS CDPATH ENV BASH_ENV
LEASE=/var/lib/cohabit/lease
CHECKPOINT=cohabit # the checkpointing environment by which a run can be stopped and queued again

declare -A job
queues=

steered() {
  local until uid
  { read -r until queues uid <"$LEASE"; } 2>/dev/null || return 1 # a word on stderr, and Grid Engine refuses the job
  [[ $until =~ ^[0-9]+$ ]] && ((EPOCHSECONDS < until)) 2>/dev/null
}

# Whether the job is one that Cohabit decides upon; what is not is left as it is.
ours() {
  steered || return 1
  [[ ${job[CLIENT]-} == qsub || ${job[CLIENT]-} == drmaa || ${job[CLIENT]-} == qmaster ]] || return 1
  [[ -z ${job[h]-} || ${job[h]-} == n ]] || return 1 # its owner wants it held
  [[ -z ${job[t_max]-} && -z ${job[q_soft]-} && -z ${job[masterq]-} ]] || return 1
  [[ -z ${job[q_hard]-} || ,$queues, == *",${job[q_hard]-},"* ]] || return 1
  [[ ${job[now]:-n} != y && ${job[now]:-n} != yes ]]
}

# Where programs of jobs with mates wait for each other, if the site has a threshold: for starter.sh.
guard() {
  local threshold
  { read -r threshold _ <"$LEASE.threshold"; } 2>/dev/null && echo "ENV ADD COHABIT_THRESHOLD $threshold"
}

verify() {
  if ! ours; then
    # by `cohabit submit`, held and marked
    if steered && [[ ,${job[ac]-}, == *,cohabit=cohabit:held@* ]] && guard; then
      echo "RESULT STATE CORRECT"
    else
      echo "RESULT STATE ACCEPT"
    fi
    return
  fi
  local mark=cohabit:held
  # Jobs that start together with others elsewhere: qsub -ac mates=NAME
  if [[ ,${job[ac]-}, =~ ,mates=([A-Za-z0-9._-]{1,60}), ]]; then
    mark+="@${BASH_REMATCH[1]}"
    guard
  fi
  echo "PARAM h u" # nothing stronger can be set here; the controller makes it a hold of the system
  echo "PARAM ac ${job[ac]:+${job[ac]-},}cohabit=$mark"
  if [[ -z ${job[ckpt]-} && ${job[r]:-y} != n && ${job[r]:-y} != no ]]; then echo "PARAM ckpt $CHECKPOINT"; fi
  echo "RESULT STATE CORRECT"
}

while read -r word rest; do
  case $word in
    START)
      job=()
      echo "STARTED"
      ;;
    PARAM)
      job[${rest%% *}]=${rest#* }
      ;;
    BEGIN) verify ;;
    QUIT) exit 0 ;;
  esac
done
