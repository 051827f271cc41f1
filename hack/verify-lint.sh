#!/usr/bin/env bash
# Runs the linters of .golangci.yml; `make lint` and `make verify` build bin/golangci-lint first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin/golangci-lint run
