#!/usr/bin/env bash
# Fails on shell scripts that do not parse, are not executable or do not stop at their first error. shellcheck runs too
# where it is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
scripts=(.ci/run hack/*.sh)
for script in "${scripts[@]}"; do
  if ! bash -n "$script"; then
    status=1
  fi
  if ! [ -x "$script" ]; then
    echo "$script: not executable" >&2
    status=1
  fi
  if ! grep -qx 'set -euo pipefail' "$script"; then
    echo "$script: lacks 'set -euo pipefail'" >&2
    status=1
  fi
done
if command -v shellcheck >/dev/null; then
  shellcheck "${scripts[@]}" || status=1
fi
exit "$status"
