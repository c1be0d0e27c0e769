#!/bin/sh
# Signs what a release consists of:  etc/packages/sign.sh KEY FOLDER
# writes FOLDER/SHA256SUMS, over all files of the folder, and FOLDER/SHA256SUMS.asc, its detached signature by the GnuPG key KEY.
# The key stays where gpg keeps it (GNUPGHOME, a smart card, an agent): nothing here reads or copies it.
# To check, with the public key imported:
#   gpg --verify SHA256SUMS.asc SHA256SUMS && sha256sum --check --strict SHA256SUMS
set -eu
[ "$#" = 2 ] || { echo "usage: sign.sh KEY FOLDER" >&2; exit 2; }
command -v gpg > /dev/null || { echo "sign.sh: gpg is not here: install gnupg" >&2; exit 1; }
cd "$2"
rm -f SHA256SUMS SHA256SUMS.asc
[ -n "$(find . -maxdepth 1 -type f)" ] || { echo "sign.sh: $2: no files to sign; run make deb, rpm or wheels first" >&2; exit 1; }
find . -maxdepth 1 -type f ! -name 'SHA256SUMS*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum > SHA256SUMS
gpg --batch --yes --local-user "$1" --armor --detach-sign --output SHA256SUMS.asc SHA256SUMS
gpg --batch --verify SHA256SUMS.asc SHA256SUMS
