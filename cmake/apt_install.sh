# shellcheck shell=bash
# Sourced by the run scripts.

# What the library is built with.
# shellcheck disable=SC2034
library_packages=(libtbb-dev libboost-dev libhwy-dev libxxhash-dev liblz4-dev libzstd-dev)

# apt_install PACKAGE...: installs the Debian packages that are missing, and says which. Quiet when
# there is nothing to do; the package manager's output is shown only when it fails.
apt_install() {
  local package missing=() as_root=() log
  for package in "$@"; do
    if [[ "$(dpkg-query -W -f='${db:Status-Status} ' "$package" 2>/dev/null)" != installed* ]]; then
      missing+=("$package")
    fi
  done
  if ((${#missing[@]} == 0)); then
    return 0
  fi
  if ! command -v apt-get >/dev/null; then
    echo "This machine has no apt-get; please install what these Debian packages hold: ${missing[*]}" >&2
    return 1
  fi
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "Please run this as root: apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi

  echo "Installing ${#missing[@]} Debian packages: ${missing[*]}"
  log="$(mktemp)"
  if ! {
    "${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
        install --no-install-recommends "${missing[@]}"
  } >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    rm -f "$log"
    echo "Installing the packages failed; the reason is above." >&2
    return 1
  fi
  rm -f "$log"
}
