#!/usr/bin/env bash
# Compares the Go benchmarks of the core and of the plugins at a commit with those of the working tree, and fails where the tree is
# worse: see test/perf/gate. Both sides run in turn, so that what else the machine does meets both.
#
#   hack/bench-check.sh BASE
#
# BENCH=REGEXP picks benchmarks, BENCH_PKGS=REGEXP packages; BENCH_COUNT=N is how often each is measured (6; below 4 nothing can be
# significant), BENCH_TIME=D for how long.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base=$(git rev-parse --verify --quiet "${1:-}^{commit}") || {
  echo "usage: make bench-check BASE=COMMIT; '${1:-}' is no commit" >&2
  exit 1
}
count=${BENCH_COUNT:-6}
root=$PWD
out=$root/bin/bench-check
rm -rf "$out"
mkdir -p "$out/tree" "$out/base" "$out/head"
git archive "$base" | tar -x -C "$out/tree"

# benchmarked lists the packages below pkg that have benchmarks.
benchmarked() { grep -rl --include='*_test.go' '^func Benchmark' pkg | xargs -n 1 dirname | sort -u | grep -E "${BENCH_PKGS:-.}"; }
mapfile -t packages < <(comm -12 <(cd "$out/tree" && benchmarked) <(benchmarked))
comm -13 <(cd "$out/tree" && benchmarked) <(benchmarked) | sed 's/$/: benchmarks only in the working tree/'
if [ "${#packages[@]}" -eq 0 ]; then
  echo "no package has benchmarks in both" >&2
  exit 1
fi

echo "compiling ${packages[*]}"
for package in "${packages[@]}"; do
  (cd "$out/tree" && go test -vet=off -c -o "$out/base/${package//\//-}.test" "./$package")
  go test -vet=off -c -o "$out/head/${package//\//-}.test" "./$package"
done

# measure SIDE TREE PACKAGE adds one measurement of every benchmark to the side's file.
measure() {
  if ! (cd "$2/$3" && "$out/$1/${3//\//-}.test" -test.run '^$' -test.bench "${BENCH:-.}" -test.benchtime "${BENCH_TIME:-100ms}" \
    -test.benchmem -test.timeout 30m) >"$out/last.txt" 2>&1; then
    cat "$out/last.txt" >&2
    return 1
  fi
  cat "$out/last.txt" >>"$out/$1.txt"
}

for ((i = 1; i <= count; i++)); do
  echo "round $i of $count"
  for package in "${packages[@]}"; do
    if ((i % 2)); then
      measure base "$out/tree" "$package"
      measure head "$root" "$package"
    else
      measure head "$root" "$package"
      measure base "$out/tree" "$package"
    fi
  done
done

bin/benchstat "base=$out/base.txt" "head=$out/head.txt" | tee "$out/benchstat.txt"
bin/benchstat -format csv "base=$out/base.txt" "head=$out/head.txt" 2>"$out/warnings.txt" | go run ./test/perf/gate
