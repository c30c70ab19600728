#!/bin/sh -p
# Grid Engine's prolog (qconf -mq: prolog root@/etc/cohabit/gridengine/prolog.sh): gives a job with mates elsewhere the token by
# which its run proves at the threshold which job it is. Only its owner can read it. Always ends with 0, waits for nobody.
# KEY is the key of the site file ([mates] threshold_key): mode 600, root's, the same on every host.
#
# Root runs this in the environment of the job's owner (qsub -v PATH=...) and in the owner's folder. So PATH is fixed, the
# shell takes neither functions nor start files from the environment (-p), and the program gets an empty environment. Which
# job it is and whose stands in Grid Engine's spool folder; the threshold checks that the owner cannot write there.
set -eu
trap 'exit 0' EXIT
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
unset IFS CDPATH ENV BASH_ENV LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT PYTHONPATH PYTHONHOME
KEY=/etc/cohabit/threshold.key
THRESHOLD=/etc/cohabit/threshold
cd /
if [ -n "${COHABIT_THRESHOLD:-}" ] && [ -r "$KEY" ]; then
  /usr/bin/env -i PATH="$PATH" "$THRESHOLD" --deliver "$KEY" "${SGE_JOB_SPOOL_DIR:-}"
fi > /dev/null 2>&1 < /dev/null
