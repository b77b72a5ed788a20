#!/bin/sh
# Installs the Debian packages that a wheel's build needs, and MORE PACKAGES, if this machine lacks them. Without root or
# sudo it prints them and fails.
# Usage: system_packages.sh PYTHON [MORE PACKAGES]
set -eu
python=${1:-python3}
[ $# = 0 ] || shift

wanted="g++ clang-16 cmake ninja-build ccache patchelf pkg-config libeigen3-dev libflatbuffers-dev flatbuffers-compiler
libpcre2-dev libutf8proc-dev nlohmann-json3-dev $*"
# The interpreter may not come from a Debian package. So ask the interpreter, not dpkg, whether venv and its headers exist.
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$python" -c 'import ensurepip, venv' 2>/dev/null || wanted="$wanted python$version-venv"
"$python" -c 'import pathlib, sysconfig, sys; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' ||
  wanted="$wanted libpython$version-dev"

missing=""
for package in $wanted; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || { echo "all installed"; exit 0; }

if [ "$(id -u)" = 0 ]; then
  sudo=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  sudo="sudo"
else
  echo "these packages are missing, and this user is not root and cannot use sudo; run as root: apt-get install$missing" >&2
  exit 1
fi
echo "installing$missing"
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing
