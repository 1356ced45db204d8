# shellcheck shell=bash
# source stress/planted.sh FOLDER [--check] [NAME]...: common part of FOLDER/run, which defines
# usage, and whose patches plant faults into a copy of the tree. Sets check_only, and sets wanted to
# the NAMEs.

here=stress/$1
build=build/$1
tree=$build/tree
out=$build/out  # The folder that cmake builds into.
limit_seconds=60
failed=0

check_only=false
wanted=()
for argument in "${@:2}"; do
  case "$argument" in
    --check)
      # shellcheck disable=SC2034
      check_only=true
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*)
      echo "$here/run: unknown option '$argument'" >&2
      exit 2
      ;;
    *) wanted+=("$argument") ;;
  esac
done
source cmake/apt_install.sh
apt_install patch

say() { printf '%-40s %-9s %s\n' "$1" "$2" "$3"; }
fail() {
  say "$@"
  failed=$((failed + 1))
}

# copy_tree PATH...: copies with modification times, so that only what changed is built again.
copy_tree() {
  local path
  mkdir -p "$tree"
  for path in "$@"; do
    rm -rf "${tree:?}/$path"
    cp -a "$path" "$tree"
  done
}

# Prints the files that a patch changes.
files_of() { sed -n 's|^+++ b/\([^[:space:]]*\).*|\1|p' "$here/$1.patch"; }

# apply NAME DIRECTORY [OPTION]...: applies a patch to the tree in DIRECTORY.
apply() {
  patch -d "$2" -p1 --fuzz=0 --silent --force "${@:3}" <"$here/$1.patch" >/dev/null
}

build_programs() { cmake --build "$out" -j "$(nproc)" --target "$@" >"$build/build.log" 2>&1; }

# limited LOG COMMAND...: runs a test, and ends it after limit_seconds, as a fault may make it hang.
# The braces put the shell's message about a crash into the log.
limited() {
  { timeout --kill-after=5 "$limit_seconds" "${@:2}"; } >"$1" 2>&1
}
# noticed STATUS: prints what a test with the fault did, unless it failed as tests do.
noticed() {
  case $1 in
    124 | 137) echo " (hangs)" ;;
    1) ;;
    *) echo " (crashes)" ;;
  esac
}
