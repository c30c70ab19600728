#!/bin/sh
# Put Cohabit beside a Slurm or a Grid Engine, and take it away again: docs/install.md and docs/install-mates.md go
# through it step by step.
#
#   install.sh controller    on the machine of slurmctld: site file, job_submit.lua, units, one block in slurm.conf
#   install.sh node          on every node: prolog and epilog, the threshold, and the daemon's unit
#   install.sh gridengine    on the master of a Grid Engine and on its hosts: verifier, starter, prolog, threshold, site file
#   install.sh remove        undo whatever of it is here; slurm.conf is as it was, byte for byte
#
# It starts and restarts nothing, and never overwrites a file of yours. Every path is a variable.
set -eu
SLURM_CONF="${SLURM_CONF:-/etc/slurm/slurm.conf}"
COHABIT_PREFIX="${COHABIT_PREFIX:-/opt/cohabit}"
COHABIT_ETC="${COHABIT_ETC:-/etc/cohabit}"
COHABIT_STATE="${COHABIT_STATE:-/var/lib/cohabit}"
COHABIT_RUN="${COHABIT_RUN:-/run/cohabit}"
COHABIT_UNITS="${COHABIT_UNITS:-/etc/systemd/system}"
here="$(cd "$(dirname "$0")" && pwd)"
begin="# begin cohabit (packaging/install.sh remove takes this block out)"
end="# end cohabit"
units="cohabit-slurm.service cohabit-handback.service cohabit-handback.timer cohabit-node.service
  cohabit-gridengine.service"

refuse() {
  echo "install.sh: $1" >&2
  exit 2
}

# A unit with our paths in it.
unit() {
  mkdir -p "$COHABIT_UNITS"
  sed -e "s|/usr/bin/env cohabit|$COHABIT_PREFIX/bin/cohabit|" -e "s|/etc/cohabit/|$COHABIT_ETC/|" "$here/$1" \
    > "$COHABIT_UNITS/$(basename "$1")"
}

# A file with our paths in it, for everybody to run.
program() {
  sed -e "s|/var/lib/cohabit/lease|$COHABIT_STATE/lease|" -e "s|/run/cohabit/node|$COHABIT_RUN/node|" \
    -e "s|/etc/cohabit|$COHABIT_ETC|g" "$here/$1" > "$2"
  chmod 755 "$2"
}

# The site file of one manager, unless there is one.
site() {
  if [ ! -e "$COHABIT_ETC/$1.toml" ]; then
    sed -e "s|@STATE@|$COHABIT_STATE|" -e "s|@ETC@|$COHABIT_ETC|" -e "s|@CONF@|$SLURM_CONF|" "$here/$1/$1.toml.in" \
      > "$COHABIT_ETC/$1.toml"
  fi
}

# What is added to slurm.conf. Prolog and epilog do nothing on a node where no daemon serves.
block() {
  printf '\n%s\nJobSubmitPlugins=lua\nProlog=%s\nEpilog=%s\n%s\n' "$begin" "$COHABIT_ETC/prolog.sh" \
    "$COHABIT_ETC/epilog.sh" "$end"
}

controller() {
  [ -f "$SLURM_CONF" ] || refuse "there is no $SLURM_CONF: set SLURM_CONF"
  [ -x "$COHABIT_PREFIX/bin/cohabit" ] || refuse "there is no $COHABIT_PREFIX/bin/cohabit: install the package first"
  grep -qF "$begin" "$SLURM_CONF" && refuse "$SLURM_CONF has our block already"
  for key in JobSubmitPlugins Prolog Epilog; do
    if grep -qiE "^[[:space:]]*$key[[:space:]]*=" "$SLURM_CONF"; then
      refuse "$SLURM_CONF sets $key already: join the two by hand (docs/install.md)"
    fi
  done
  lua="$(dirname "$SLURM_CONF")/job_submit.lua"
  [ -e "$lua" ] && refuse "$lua is there already: join the two by hand (docs/install.md)"
  mkdir -p "$COHABIT_ETC" "$COHABIT_STATE"
  sed "s|/var/lib/cohabit/lease|$COHABIT_STATE/lease|" "$here/slurm/job_submit.lua" > "$lua"
  site slurm
  unit slurm/cohabit-slurm.service
  unit slurm/cohabit-handback.service
  unit slurm/cohabit-handback.timer
  cp -p "$SLURM_CONF" "$SLURM_CONF.before-cohabit"
  { cat "$SLURM_CONF"; block; } > "$SLURM_CONF.new"
  chmod --reference="$SLURM_CONF" "$SLURM_CONF.new"
  chown --reference="$SLURM_CONF" "$SLURM_CONF.new"
  mv "$SLURM_CONF.new" "$SLURM_CONF"
  echo "install.sh: $SLURM_CONF has a block of three lines; the file as it was is $SLURM_CONF.before-cohabit"
}

node() {
  mkdir -p "$COHABIT_ETC"
  program slurm/prolog.sh "$COHABIT_ETC/prolog.sh"
  program slurm/epilog.sh "$COHABIT_ETC/epilog.sh"
  program threshold "$COHABIT_ETC/threshold" # for jobs with mates on other clusters, where the site file wants it
  unit slurm/cohabit-node.service
  echo "install.sh: prolog and epilog are in $COHABIT_ETC"
}

gridengine() {
  mkdir -p "$COHABIT_ETC/gridengine" "$COHABIT_STATE"
  for name in cohabit-jsv.sh starter.sh prolog.sh; do program "gridengine/$name" "$COHABIT_ETC/gridengine/$name"; done
  program threshold "$COHABIT_ETC/threshold"
  site gridengine
  unit gridengine/cohabit-gridengine.service
  echo "install.sh: verifier, starter and prolog are in $COHABIT_ETC/gridengine"
}

remove() {
  if [ -f "$SLURM_CONF" ] && grep -qF "$begin" "$SLURM_CONF"; then
    before="$SLURM_CONF.before-cohabit"
    if [ -f "$before" ] && { cat "$before"; block; } | cmp -s - "$SLURM_CONF"; then
      mv "$before" "$SLURM_CONF"
      echo "install.sh: $SLURM_CONF is as it was"
    else # you have changed it since: only the block goes, with the empty line before it
      awk -v begin="$begin" -v end="$end" '
        $0 == begin { inside = 1; held = 0; next }
        inside { if ($0 == end) inside = 0; next }
        { if (held) print ""; held = ($0 == ""); if (!held) print }
        END { if (held) print "" }
      ' "$SLURM_CONF" > "$SLURM_CONF.new"
      chmod --reference="$SLURM_CONF" "$SLURM_CONF.new"
      chown --reference="$SLURM_CONF" "$SLURM_CONF.new"
      mv "$SLURM_CONF.new" "$SLURM_CONF"
      echo "install.sh: our block is out of $SLURM_CONF; as it was before us: $before"
    fi
    lua="$(dirname "$SLURM_CONF")/job_submit.lua"
    if [ -f "$lua" ] && grep -q "Holds batch jobs for Cohabit" "$lua"; then rm "$lua"; fi
  fi
  for name in $units; do rm -f "$COHABIT_UNITS/$name"; done
  for name in slurm.toml gridengine.toml prolog.sh epilog.sh threshold threshold.key pair.key; do
    rm -f "$COHABIT_ETC/$name"
  done
  rm -rf "$COHABIT_ETC/gridengine"
  rmdir "$COHABIT_ETC" 2> /dev/null || true
  rm -rf "$COHABIT_STATE" "$COHABIT_RUN/node"
  rmdir "$COHABIT_RUN" 2> /dev/null || true
}

case "${1:-}" in
  controller | node | gridengine | remove) "$1" ;;
  *) refuse "say controller, node, gridengine or remove" ;;
esac
