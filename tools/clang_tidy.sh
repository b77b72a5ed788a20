#!/bin/sh
# clang-tidy over the given sources, with the compile commands of the C++ test build.
set -eu
cd "$(dirname "$0")/.."
[ -f build/test/compile_commands.json ] || { echo "no build/test: run make ctest first" >&2; exit 1; }
exec clang-tidy-16 --quiet -p build/test "$@"
