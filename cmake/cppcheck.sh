#!/usr/bin/env bash
# cppcheck over the library; exits with 1 if it reports anything.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec cppcheck --quiet --error-exitcode=1 --std=c++20 --language=c++ --inline-suppr -j "$(nproc)" \
  --enable=warning,performance,portability --suppressions-list=cmake/cppcheck.supp \
  -Iinclude -Isrc include src
