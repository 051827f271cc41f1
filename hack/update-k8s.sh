#!/usr/bin/env bash
# Points go.mod at another Kubernetes version: update-k8s.sh 1.37.2
#
# k8s.io/kubernetes replaces its staging modules by folders of its own repository, which a module that
# imports it does not see. This script reads that list from the version asked for and writes one
# `replace k8s.io/X => k8s.io/X v0.MINOR.PATCH` a module, then tidies.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?usage: hack/update-k8s.sh VERSION, for example 1.37.2}
version=${version#v}
if ! [[ $version =~ ^1\.([0-9]+)\.([0-9]+)$ ]]; then
  echo "update-k8s: VERSION must look like 1.37.2, got '$version'" >&2
  exit 2
fi
staging=v0.${BASH_REMATCH[1]}.${BASH_REMATCH[2]}

# Outside this module, so that a go.mod which does not resolve today can still be rewritten.
upstream=$(cd / && go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^[[:space:]]*"GoMod": "\(.*\)",$/\1/p')
if [ -z "$upstream" ]; then
  echo "update-k8s: k8s.io/kubernetes v$version has no go.mod that could be read" >&2
  exit 1
fi

while read -r module; do
  go mod edit -dropreplace="$module"
done < <(sed -n 's/^[[:space:]]*\(replace \)\{0,1\}\(k8s\.io\/[a-z0-9-]*\) => k8s\.io\/.*/\2/p' go.mod)
while read -r module; do
  go mod edit -replace="$module=$module@$staging"
done < <(sed -n 's/^[[:space:]]*\(k8s\.io\/[a-z0-9-]*\) => \.\/staging\/.*/\1/p' "$upstream")
go mod edit -require="k8s.io/kubernetes@v$version"
go mod tidy
# Upstream requires its staging modules at v0.0.0; name the version that the replace lines really give.
while read -r module; do
  go mod edit -require="$module@$staging"
done < <(sed -n 's/^[[:space:]]*\(k8s\.io\/[a-z0-9-]*\) v0\.[0-9]*\.[0-9]*\( .*\)\{0,1\}$/\1/p' go.mod | sort -u | while read -r m; do
  if grep -qE "^[[:space:]]*$m => " go.mod; then echo "$m"; fi
done)
go mod tidy
