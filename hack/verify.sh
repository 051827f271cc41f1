#!/usr/bin/env bash
# Runs every hack/verify-*.sh, reports all that failed, then fails on changes that are not committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=()
for check in hack/verify-*.sh; do
  name=${check#hack/verify-}
  name=${name%.sh}
  echo "verify $name"
  if ! "$check"; then
    failed+=("$name")
  fi
done

if [ "${#failed[@]}" -gt 0 ]; then
  echo "verify: failed: ${failed[*]}" >&2
  exit 1
fi
if ! git diff --exit-code; then
  echo "verify: the checks passed, but the changes above are not committed" >&2
  exit 1
fi
echo "verify: every check passed"
