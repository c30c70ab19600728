#!/bin/sh -p
# Put Cohabit beside a Slurm or a Grid Engine, and take it away again: docs/install.md and docs/install-mates.md go
# through it step by step.
#
#   install.sh controller    on the machine of slurmctld: site file, job_submit.lua, units, one block in slurm.conf
#   install.sh node          on every node: prolog and epilog, the threshold, and the daemon's unit
#   install.sh gridengine    on the master of a Grid Engine and on its hosts: verifier, starter, prolog, threshold, site file
#   install.sh remove        undo whatever of it is here; slurm.conf is as it was, byte for byte. Site files, keys and the
#                            state (journal, accounts of jobs) stay, and it says where they lie
#   install.sh remove --purge   those too
#
# It starts and restarts nothing, and never overwrites a file of yours. Every path is a variable.
set -eu
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
unset IFS CDPATH ENV BASH_ENV
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
yours="slurm.toml gridengine.toml threshold.key pair.key" # written by you, or for you

refuse() {
  echo "install.sh: $1" >&2
  exit 2
}

# A unit with our paths in it.
unit() {
  mkdir -p "$COHABIT_UNITS"
  sed -e "s|/opt/cohabit/bin/cohabit|$COHABIT_PREFIX/bin/cohabit|" -e "s|/etc/cohabit/|$COHABIT_ETC/|" "$here/$1" \
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

# job_submit.lua with our paths in it.
plugin() {
  sed "s|/var/lib/cohabit/lease|$COHABIT_STATE/lease|" "$here/slurm/job_submit.lua"
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
  plugin > "$lua"
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
  removable "$COHABIT_RUN/node"
  if [ "$purge" = yes ]; then removable "$COHABIT_STATE"; fi
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
    if [ -f "$lua" ] && grep -q "Holds batch jobs for Cohabit" "$lua"; then
      if plugin | cmp -s - "$lua"; then rm "$lua"; else echo "install.sh: kept: $lua, which was changed"; fi
    fi
  fi
  for name in $units; do rm -f "$COHABIT_UNITS/$name"; done
  for name in prolog.sh epilog.sh threshold gridengine/cohabit-jsv.sh gridengine/starter.sh gridengine/prolog.sh; do
    rm -f "$COHABIT_ETC/$name"
  done
  rm -rf "$COHABIT_RUN/node" # in memory: what prologs told a daemon that has gone
  if [ "$purge" = yes ]; then
    for name in $yours; do rm -f "$COHABIT_ETC/$name"; done
    rm -rf "$COHABIT_STATE"
  fi
  for folder in "$COHABIT_ETC/gridengine" "$COHABIT_ETC" "$COHABIT_RUN"; do
    if [ -d "$folder" ]; then rmdir --ignore-fail-on-non-empty "$folder"; fi
  done
  kept
}

# Whether a folder may be removed with all that is in it: not one of the system's, and not what a link leads to.
removable() {
  if [ -L "$1" ]; then refuse "$1 is a link: remove by hand what it leads to"; fi
  case "$(readlink -m "$1")" in
    /*/*/*) ;;
    /bin/* | /boot/* | /dev/* | /etc/* | /home/* | /lib/* | /proc/* | /run/* | /sbin/* | /sys/* | /usr/* | /var/*)
      refuse "$1 is no folder of Cohabit's own: remove by hand what is in it" ;;
    /*/*) ;;
    *) refuse "$1 is no folder of Cohabit's own: remove by hand what is in it" ;;
  esac
}

# What is left that somebody may want, or want to delete.
kept() {
  for path in $yours; do
    if [ -e "$COHABIT_ETC/$path" ]; then echo "install.sh: kept: $COHABIT_ETC/$path"; fi
  done
  if [ -e "$COHABIT_STATE" ]; then echo "install.sh: kept: $COHABIT_STATE (install.sh remove --purge removes what is kept)"; fi
}

purge=no
case "$*" in
  controller | node | gridengine | remove) "$1" ;;
  "remove --purge")
    purge=yes
    remove
    ;;
  *) refuse "say controller, node, gridengine, remove or remove --purge" ;;
esac
