# shellcheck shell=bash
# source stress/planted.sh FOLDER: for FOLDER/run, whose patches plant faults into a copy of the tree.

here=stress/$1
build=build/$1
tree=$build/tree
out=$build/out  # What cmake builds into.
limit_seconds=60
failed=0

say() { printf '%-40s %-9s %s\n' "$1" "$2" "$3"; }
fail() {
  say "$@"
  failed=$((failed + 1))
}

# copy_tree PATH...: modification times are kept, so that only what changed is built again.
copy_tree() {
  local path
  mkdir -p "$tree"
  for path in "$@"; do
    rm -rf "${tree:?}/$path"
    cp -a "$path" "$tree"
  done
}

# The files that a patch changes.
files_of() { sed -n 's|^+++ b/\([^[:space:]]*\).*|\1|p' "$here/$1.patch"; }

# apply NAME DIRECTORY [OPTION]...
apply() {
  patch -d "$2" -p1 --fuzz=0 --silent --force "${@:3}" <"$here/$1.patch" >/dev/null
}

build_programs() { cmake --build "$out" -j "$(nproc)" --target "$@" >"$build/build.log" 2>&1; }

# limited LOG COMMAND...: a fault may hang a test; that is noticed too. In braces, so that the log also
# takes what the shell says of a crash.
limited() {
  { timeout --kill-after=5 "$limit_seconds" "${@:2}"; } >"$1" 2>&1
}
# noticed STATUS: how the tests ended.
noticed() {
  case $1 in
    124 | 137) echo " (hangs)" ;;
    1) ;;
    *) echo " (crashes)" ;;
  esac
}
