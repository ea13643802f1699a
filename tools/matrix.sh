#!/usr/bin/env bash
# The test suite on other Pythons and on the lowest versions that pyproject.toml declares, each in an environment that uv
# makes under .matrix/.
#
#   tools/matrix.sh                         all rows
#   tools/matrix.sh 3.11-lowest 3.13        these rows
#   TESTS="tests/core tests/laws" tools/matrix.sh 3.12
#
# A row is a version of Python, with "-lowest" for the lowest direct dependencies. An interpreter that neither this machine
# has nor uv can fetch is a row that did not run: it is said, and the command fails (SKIP_MISSING=1: it is said at the end).
set -uo pipefail
cd "$(dirname "$0")/.."
UV="${UV:-uv}"
ROWS=("$@")
[ ${#ROWS[@]} -gt 0 ] || ROWS=(3.11-lowest 3.12 3.13)
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

command -v "$UV" > /dev/null || { echo "make test-matrix: needs uv (pip install uv, or UV=/path/to/uv)"; exit 1; }

failed=() missing=() passed=()
for row in "${ROWS[@]}"; do
  python="${row%-lowest}"
  options=()
  [ "$row" = "$python" ] || options=(--resolution lowest-direct)
  echo "=== $row"
  if ! "$UV" venv --quiet --clear --python "$python" ".matrix/$row"; then
    echo "!!! $row: NOT RUN: no Python $python on this machine, and uv could not fetch one"
    missing+=("$row")
    continue
  fi
  if "$UV" pip install --quiet --python ".matrix/$row" "${options[@]}" -e ".[dev]" &&
    ".matrix/$row/bin/python" -m pytest -n "${PROCESSES:-2}" ${TESTS:-tests}; then
    passed+=("$row")
  else
    failed+=("$row")
  fi
done
echo "passed: ${passed[*]:-none}; failed: ${failed[*]:-none}; NOT RUN (no interpreter): ${missing[*]:-none}"
[ ${#failed[@]} -eq 0 ] && { [ ${#missing[@]} -eq 0 ] || [ "${SKIP_MISSING:-0}" = 1 ]; }
