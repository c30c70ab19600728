#!/bin/bash
# Grid Engine's starter (qconf -mq: starter_method /etc/cohabit/gridengine/starter.sh): starts jobs as Grid Engine itself would. One
# with mates elsewhere first stands at the threshold, which comes back here when it is open. For other jobs nothing else
# is done, and nobody is asked. It runs as the job's owner, in the owner's environment, which the job is to get as it is.
THRESHOLD=/etc/cohabit/threshold

[[ -n $COHABIT_THRESHOLD ]] && exec "$THRESHOLD" --starter "$0" "$@"
shell=${SGE_STARTER_SHELL_PATH:-/bin/sh} name=
[[ $SGE_STARTER_USE_LOGIN_SHELL == true ]] && name=-${shell##*/}
if [[ $1 != */job_scripts/* ]]; then # qsub -b y, through a shell unless -shell n
  settings=$(<"$SGE_JOB_SPOOL_DIR/config") 2>/dev/null
  [[ $settings == *$'\n'no_shell=0* ]] && exec -a "${name:-$shell}" "$shell" -c "$*"
  exec "$@"
fi
if [[ $SGE_STARTER_SHELL_START_MODE == unix_behavior ]]; then
  read -r -n 2 first <"$1"
  [[ $first == '#!' ]] && exec "$@"
  exec "$shell" "$@"
fi
exec -a "${name:-$shell}" "$shell" "$@"
