#!/bin/sh
# Runs clang-tidy with the compile commands of the C++ test build. With arguments: all checks of .clang-tidy on these
# sources. Without arguments: only the check of names, on all sources of the core, host, kernels and tools and on their tests.
set -eu
cd "$(dirname "$0")/.."
[ -f build/test/compile_commands.json ] || { echo "no build/test: run make ctest first" >&2; exit 1; }
[ $# -eq 0 ] || exec clang-tidy-16 --quiet -p build/test "$@"
git ls-files -z --cached --others --exclude-standard 'runtime_cpp/*.cpp' |
  grep -zvE '^runtime_cpp/(python|fuzz|vulkan)/|size_app' |
  xargs -0 -n 4 -P "$(nproc)" clang-tidy-16 --quiet -p build/test --checks='-*,readability-identifier-naming'
