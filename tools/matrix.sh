#!/usr/bin/env bash
# The test suite on other Pythons and on the lowest versions that pyproject.toml declares, each in an environment that uv
# makes under .matrix/.
#
#   tools/matrix.sh                         all rows
#   tools/matrix.sh 3.11-lowest 3.13        these rows
#   TESTS="tests/core tests/laws" tools/matrix.sh 3.12
#
# A row is a version of Python, with "-lowest" for the lowest direct dependencies. An interpreter is one that uv knows or finds
# on PATH, one of pyenv's, or one that uv fetches. Where there is none the row did not run: it is said, and the command fails
# (SKIP_MISSING=1: it is said at the end). PROCESSES=1 runs the tests in one process; the default is two. What each row did
# is kept in benchmarks/records/matrix.json.
set -uo pipefail
cd "$(dirname "$0")/.."
UV="${UV:-uv}"
ROWS=("$@")
[ ${#ROWS[@]} -gt 0 ] || ROWS=(3.11-lowest 3.12 3.13)
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

command -v "$UV" > /dev/null || { echo "make test-matrix: needs uv (pip install uv, or UV=/path/to/uv)"; exit 1; }

# The interpreter of a version: the word itself where uv finds one, else the newest that pyenv has of it, else the word again
# (uv then tries to fetch it). Shims of pyenv look like interpreters and fail unless their version is switched on.
interpreter() {
  if ! "$UV" python find --quiet --no-python-downloads "$1" > /dev/null 2>&1; then
    local kept
    kept=$(ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1"*/bin/python 2> /dev/null | sort -V | tail -n 1)
    [ -z "$kept" ] || { echo "$kept"; return; }
  fi
  echo "$1"
}

failed=() missing=() passed=()
for row in "${ROWS[@]}"; do
  python="${row%-lowest}"
  options=()
  [ "$row" = "$python" ] || options=(--resolution lowest-direct)
  echo "=== $row"
  if ! "$UV" venv --quiet --clear --python "$(interpreter "$python")" ".matrix/$row"; then
    echo "!!! $row: NOT RUN: no Python $python on this machine, and uv could not fetch one"
    missing+=("$row")
    continue
  fi
  rm -f ".matrix/$row.log"
  if "$UV" pip install --quiet --python ".matrix/$row" "${options[@]}" -e ".[dev]" -e "lab[ray]" &&
    ".matrix/$row/bin/python" -m pytest -n "${PROCESSES:-2}" ${TESTS:-tests lab/tests} 2>&1 | tee ".matrix/$row.log"; then
    passed+=("$row")
  else
    failed+=("$row")
  fi
  # what a whole run did is kept; a part says nothing about the row
  [ -n "${TESTS:-}" ] || [ ! -f ".matrix/$row.log" ] || ".matrix/$row/bin/python" tools/matrix_record.py "$row" ".matrix/$row.log"
done
echo "passed: ${passed[*]:-none}; failed: ${failed[*]:-none}; NOT RUN (no interpreter): ${missing[*]:-none}"
[ ${#failed[@]} -eq 0 ] && { [ ${#missing[@]} -eq 0 ] || [ "${SKIP_MISSING:-0}" = 1 ]; }
