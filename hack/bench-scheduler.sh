#!/usr/bin/env bash
# Runs the workloads of test/perf/scheduler, by every variant, and writes a file for `make bench-report` into bin/bench for each.
#
#   hack/bench-scheduler.sh LABEL    short (a minute for a workload) or performance
#
# BENCH_SUITE=REGEXP picks workloads (Seed, Gang, ...), BENCH_SIZES=REGEXP sizes; BENCH_ROUNDS=N is how often each is measured.
# Every variant runs in a process of its own, in turn forth and back: what else the machine does meets all alike.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

label=${1:?usage: hack/bench-scheduler.sh short|performance}
rounds=${BENCH_ROUNDS:-3}
sizes=${BENCH_SIZES:-}
folder=test/perf/scheduler
command="BENCH_SUITE='${BENCH_SUITE:-}' BENCH_SIZES='$sizes' BENCH_ROUNDS=$rounds hack/bench-scheduler.sh $label"
commit=$(git describe --always --dirty)
root=$PWD

mapfile -t cases < <(cat "$folder"/performance-config*.yaml | sed -n 's/^- name: //p')
mapfile -t workloads < <(printf '%s\n' "${cases[@]%%_*}" | awk '!seen[$0]++' | grep -E "${BENCH_SUITE:-.}" || true)
if [ "${#workloads[@]}" -eq 0 ]; then
  echo "BENCH_SUITE='${BENCH_SUITE:-}' is none of: ${cases[*]%%_*}" >&2
  exit 1
fi

mkdir -p bin/bench
go test -vet=off -c -o bin/bench/scheduler.test "./$folder"
go build -o bin/bench/report ./test/perf/report

# one CASE RAW runs one variant in a process of its own.
one() {
  local name=BenchmarkPerfScheduling
  if [[ $1 == Spread* ]]; then
    name+=Spread
  fi
  local pattern="^$name\$/^$1\$/${sizes:-.}"
  if ! (cd "$folder" && PATH="$root/bin:$PATH" ARTIFACTS="$2" KUBE_CACHE_MUTATION_DETECTOR=false "$root/bin/bench/scheduler.test" \
    -test.run '^$' -test.bench "$pattern" -test.benchtime 1x -test.timeout 300m \
    -perf-scheduling-label-filter="$label" -data-items-dir="$2") >"$2/$1.txt" 2>&1; then
    tail -n 40 "$2/$1.txt" >&2
    echo "$1 failed; all of its output is in $2/$1.txt" >&2
    return 1
  fi
  grep -oE '^BenchmarkPerfScheduling[^ ]+|[0-9.]+ SchedulingThroughput/Average|[0-9.]+ SchedulingDuration/Duration' "$2/$1.txt" | paste -sd ' ' || true
}

for workload in "${workloads[@]}"; do
  raw=$root/bin/bench/raw/$workload-$label
  rm -rf "$raw"
  mkdir -p "$raw"
  began=$(date -u +%Y-%m-%dT%H:%M:%SZ)
  load=$(cut -d ' ' -f 1 /proc/loadavg)
  mapfile -t variants < <(printf '%s\n' "${cases[@]}" | grep "^${workload}_")
  for ((round = 1; round <= rounds; round++)); do
    for variant in "${variants[@]}"; do
      one "$variant" "$raw"
    done
    mapfile -t variants < <(printf '%s\n' "${variants[@]}" | tac)
  done
  bin/bench/report collect --raw "$raw" --scope "$workload, $label${sizes:+, $sizes}" --commit "$commit" --command "$command" \
    --time "$began" --load "$load" --out "bin/bench/scheduler-$workload-$label.json"
done
