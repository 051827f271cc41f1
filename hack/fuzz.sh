#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (default 30s) and reports all that failed.
# `hack/fuzz.sh REGEXP` runs those whose "folder name" matches.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzztime=${FUZZTIME:-30s}
wanted=${1:-.}

targets=$(git grep --untracked -E '^func Fuzz[A-Za-z0-9_]+\(' -- '*_test.go' |
  sed -E 's|^(.*)/[^/]*:func (Fuzz[A-Za-z0-9_]+)\(.*|\1 \2|' | grep -E -- "$wanted" | sort || true)
if [ -z "$targets" ]; then
  echo "fuzz: no fuzz target matches '$wanted'" >&2
  exit 1
fi

# Minimising an interesting input of these parsers may eat a whole run at the default of 60 s.
failed=()
while read -r folder name; do
  echo "fuzz $folder $name for $fuzztime"
  if ! go test -run '^$' -fuzz "^$name\$" -fuzztime "$fuzztime" -fuzzminimizetime 10x "./$folder"; then
    failed+=("$folder $name")
  fi
done <<<"$targets"

if [ "${#failed[@]}" -gt 0 ]; then
  printf 'fuzz: failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
