#!/usr/bin/env bash
# Fails on unfinished work and stray white space: markers left for later, figures not measured yet, conflict markers,
# trailing blanks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
# The pattern is spelled so that it does not find itself.
if git grep --untracked -n -I -w -E 'TOD[O]|FIXM[E]|XX[X]|FIGUR[E]-[a-z0-9-]+' -- . ':!LICENSE' ':!go.sum' ':!.golangci.yml'; then
  echo 'verify-text: the lines above are marked as unfinished' >&2
  status=1
fi
# Against the empty tree, so that every line counts as new.
empty=$(git hash-object -t tree /dev/null)
if ! git diff --check "$empty" -- . ':!LICENSE' ':!*/testdata/*'; then
  echo 'verify-text: white space or conflict markers in the lines above' >&2
  status=1
fi
exit "$status"
