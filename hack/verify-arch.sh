#!/usr/bin/env bash
# Fails on an import that test/arch does not allow, a package without doc.go, a package name or a file length out of bounds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go test -count=1 ./test/arch
