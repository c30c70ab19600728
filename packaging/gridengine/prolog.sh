#!/bin/sh
# Grid Engine's prolog (qconf -mq: prolog root@/etc/cohabit/gridengine/prolog.sh): gives a job with mates elsewhere the token by
# which its run proves at the threshold which job it is. Only its owner can read it. Always ends with 0, waits for nobody.
# KEY is the key of the site file ([mates] threshold_key): mode 600, root's, the same on every host.
KEY=/etc/cohabit/threshold.key
THRESHOLD=/etc/cohabit/threshold
if [ -n "$COHABIT_THRESHOLD" ] && [ -r "$KEY" ] && [ -d "$SGE_JOB_SPOOL_DIR" ]; then
  umask 077
  "$THRESHOLD" --token "$KEY" "$JOB_ID" > "$SGE_JOB_SPOOL_DIR/cohabit.token" && chown "$USER" "$SGE_JOB_SPOOL_DIR/cohabit.token"
fi 2> /dev/null
exit 0
