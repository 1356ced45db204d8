# shellcheck shell=bash
# Sourced by the run scripts of examples: what they say, and apt_install.

source cmake/apt_install.sh

say() { printf '\n== %s\n' "$*"; }

# quietly COMMAND...: shows what the command said only if it fails.
quietly() {
  local log
  log="$(mktemp)"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    rm -f "$log"
    echo "This failed: $*" >&2
    return 1
  fi
  rm -f "$log"
}
