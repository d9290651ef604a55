#!/usr/bin/env bash
# The main job on real input: make a vault, back up a tree twice with a change between, look at it,
# restore a file and the whole, compare, check. Needs Python 3.11 or newer; leaves nothing behind but
# the environment in .venv-quickstart.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
environment=$PWD/.venv-quickstart
if [ ! -x "$environment/bin/chunkvault" ]; then
  echo "Installing chunkvault into ${environment##*/} ..."
  "$python" -m venv "$environment"
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check .
fi
export PATH="$environment/bin:$PATH"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
export XDG_CACHE_HOME="$place/cache"

# Print a command as a person would type it, then run it.
run() {
  printf '\n$ %s\n' "$*"
  bash -euo pipefail -c "$*"
}

# Real input: Python's own standard library, some thousands of files.
cp -a "$("$python" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" project
rm -rf project/site-packages project/dist-packages
echo "project holds $(find project -type f | wc -l) files, $(du -sh project | cut -f1)"

(umask 077 && head -c 24 /dev/urandom | base64 > passphrase)
export CHUNKVAULT_VAULT=$place/vault CHUNKVAULT_PASSPHRASE_FILE=$place/passphrase
printf '\n$ export CHUNKVAULT_VAULT=%s\n' "$CHUNKVAULT_VAULT"
printf '$ export CHUNKVAULT_PASSPHRASE_FILE=%s\n' "$CHUNKVAULT_PASSPHRASE_FILE"

run 'chunkvault init'
run 'chunkvault backup project'

run 'echo "# a change" >> project/os.py; mkdir project/new; cp project/json/*.py project/new; rm project/this.py'
run 'chunkvault backup project --tag second'
run 'chunkvault snapshots'
run "chunkvault ls -l latest:$place/project/new"

run "chunkvault restore latest:$place/project/os.py --target one"
run 'cmp one/os.py project/os.py && echo identical'
run "chunkvault restore latest:$place/project --target all"
run 'diff -r --no-dereference project all && echo identical'
run "chunkvault dump latest:$place/project/new/tool.py | wc -l"

run 'chunkvault stats'
run 'chunkvault check --read-data'
printf '\nAll restored data is identical to what was backed up.\n'
