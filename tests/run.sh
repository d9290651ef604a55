#!/usr/bin/env bash
# Lint, types, layers and all tests, in an environment of its own.
#
#   ./tests/run.sh [arguments for pytest]
#
# Needs Python 3.11 or newer. What else is missing is installed where that is allowed (as root on
# Debian or Ubuntu); otherwise it is named, and nothing is run. CHUNKVAULT_TEST_ENV names another
# folder for the environment than .venv-tests.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'tests/run.sh: %s\n' "$*" >&2; exit 1; }

# --- system packages

declare -A package_of=(
  [setfacl]=acl [setfattr]=attr [setcap]=libcap2-bin [shellcheck]=shellcheck [unshare]=util-linux
)

find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}

missing_packages() {
  local tool
  for tool in "${!package_of[@]}"; do
    # /usr/sbin is not on every user's PATH.
    PATH="$PATH:/usr/sbin:/sbin" command -v "$tool" >/dev/null || echo "${package_of[$tool]}"
  done
  "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

python=$(find_python)
[ -n "$python" ] || fail "no Python 3.11 or newer found; set PYTHON to one"
export PATH="$PATH:/usr/sbin:/sbin"

mapfile -t missing < <(missing_packages)
if [ "${#missing[@]}" -gt 0 ]; then
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    say "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    mapfile -t missing < <(missing_packages)
  fi
  [ "${#missing[@]}" -eq 0 ] || fail "please install: ${missing[*]}"
fi

# --- environment

environment=${CHUNKVAULT_TEST_ENV:-.venv-tests}
if [ ! -x "$environment/bin/python" ]; then
  say "making $environment"
  "$python" -m venv "$environment"
fi
environment=$(cd "$environment" && pwd)
export PATH="$environment/bin:$PATH"
unset PYTHONPATH PYTHONHOME

say "installing chunkvault and its tools"
python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
python -m pip install --quiet --disable-pip-version-check --editable . --group test --group lint

# --- checks

say "ruff"
ruff check .
ruff format --check .
say "mypy"
mypy chunkvault tests bench docs
say "layers"
lint-imports
say "shellcheck"
shellcheck .ci/run tests/run.sh examples/*.sh
say "pytest"
python -m pytest -n auto "$@"
