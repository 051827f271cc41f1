#!/usr/bin/env bash
# Formats the code and tidies go.mod. With a version (update.sh 1.37.2), points go.mod at that Kubernetes release first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "$#" -gt 0 ]; then
  hack/update-k8s.sh "$1"
fi
git ls-files --cached --others --exclude-standard -z -- '*.go' | xargs -0 "$(go env GOROOT)/bin/gofmt" -s -w
go mod tidy
