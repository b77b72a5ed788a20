#!/bin/sh
# Runs clang-tidy with the compile commands of the C++ test build. With arguments, it runs all checks of .clang-tidy on
# these sources. Without arguments, it runs only the check of names. This check reads the sources and tests of the core,
# host, kernels and tools that changed since `make .stamps/clang-tidy` last passed, or all of them if a header changed.
set -eu
cd "$(dirname "$0")/.."
[ -f build/test/compile_commands.json ] || { echo "no build/test: run make ctest first" >&2; exit 1; }
[ $# -eq 0 ] || exec clang-tidy-16 --quiet -p build/test "$@"
newer=""
if [ -f .stamps/clang-tidy ] && [ -z "$(find runtime_cpp .clang-tidy -not -name '*.cpp' -type f -newer .stamps/clang-tidy)" ]; then
  newer="-newer .stamps/clang-tidy"
fi
sources=$(git ls-files --cached --others --exclude-standard 'runtime_cpp/*.cpp' |
  grep -vE '^runtime_cpp/(python|fuzz|vulkan)/|size_app')
find $sources $newer -print0 |
  xargs -0 -r -n 4 -P "$(nproc)" clang-tidy-16 --quiet -p build/test --checks='-*,readability-identifier-naming'
