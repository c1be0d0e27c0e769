#!/bin/sh
# usage: wheel_from_sdist.sh SDIST FOLDER   builds the wheel from an unpacked sdist, as an installer does; PYTHON has hatchling
set -eu
sdist=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$sdist" -C "$work" --strip-components=1
cd "$work" && "${PYTHON:-python3}" -m hatchling build -t wheel -d "$folder"
