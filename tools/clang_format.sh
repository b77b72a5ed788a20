#!/bin/sh
# Formats our C and C++ files, or with --check fails and shows where one is not formatted.
set -eu
cd "$(dirname "$0")/.."
mode="-i"
[ "${1:-}" != --check ] || mode="--dry-run --Werror"
git ls-files -z --cached --others --exclude-standard '*.h' '*.hpp' '*.c' '*.cpp' | xargs -0 -r clang-format-16 $mode
