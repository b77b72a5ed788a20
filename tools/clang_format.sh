#!/bin/sh
# Formats all C and C++ files of the repository. With --check it only fails if a file is not formatted.
set -eu
cd "$(dirname "$0")/.."
mode="-i"
[ "${1:-}" != --check ] || mode="--dry-run --Werror"
git ls-files -z --cached --others --exclude-standard '*.h' '*.hpp' '*.c' '*.cpp' '*.mm' | xargs -0 -r clang-format-16 $mode
