#!/usr/bin/env bash
# Fails when a kustomization under manifests/ does not build, or builds something that test/manifests does not accept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go test -count=1 ./test/manifests
