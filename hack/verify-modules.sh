#!/usr/bin/env bash
# Fails when go.mod is not tidy, or when its replace lines belong to another Kubernetes release than the one required.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go mod tidy -diff

release=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
staging=v0.${release#v1.}
strays=$(sed -n 's/^replace \(k8s\.io\/[^ ]*\) => \(.*\)$/\1 => \2/p' go.mod | awk -v want="$staging" '$3 != $1 || $4 != want')
if [ -n "$strays" ]; then
  printf 'k8s.io/kubernetes is %s, so these replace lines must name %s (hack/update-k8s.sh writes them):\n%s\n' \
    "$release" "$staging" "$strays" >&2
  exit 1
fi
