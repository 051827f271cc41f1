#!/usr/bin/env bash
# Fails on Go files that gofmt -s would change. `make update` changes them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

unformatted=$(git ls-files --cached --others --exclude-standard -z -- '*.go' | xargs -0 "$(go env GOROOT)/bin/gofmt" -s -l)
if [ -n "$unformatted" ]; then
  printf 'gofmt -s would change:\n%s\n' "$unformatted" >&2
  exit 1
fi
