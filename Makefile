# Every target is listed by `make help`. Nothing here needs root, a container engine, kubectl or a cluster.
SHELL := bash
.DEFAULT_GOAL := help

KWOK_VERSION := v0.7.0
GOLANGCI_LINT_VERSION := v2.15.0
BENCHSTAT_VERSION := v0.0.0-20260908200009-22c9c6c9d4da
ETCD_VERSION := $(shell sed -n 's|^[[:space:]]*go.etcd.io/etcd/server/v3 \(v[0-9.]*\)$$|\1|p' go.mod)

# What the binaries say they are. The scheduler takes the Kubernetes release it behaves as from this string, so it begins
# with the release that go.mod names; our own version follows as build metadata.
VERSION ?= $(shell git describe --always --dirty 2>/dev/null || echo unknown)
K8S_VERSION := $(shell sed -n 's|^[[:space:]]*k8s.io/kubernetes \(v[0-9.]*\)$$|\1|p' go.mod)
LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(K8S_VERSION)+$(VERSION)

COMMANDS := $(notdir $(wildcard cmd/*))
BINARIES := $(addprefix bin/,$(COMMANDS))

# One way to compile for the binaries, the linter and the benchmarks: Kubernetes is compiled once for all of them.
USER_GOFLAGS := $(shell go env GOFLAGS)
export GOFLAGS := $(strip $(USER_GOFLAGS) -buildvcs=false -trimpath)
STATIC := CGO_ENABLED=0

# The race detector needs a C compiler; without one the same tests run without it. Tests keep full paths.
ifeq ($(shell go env CGO_ENABLED),1)
TEST := GOFLAGS="$(USER_GOFLAGS)" go test -race -ldflags=-w
else
TEST := $(STATIC) go test
endif
TEST_TIMEOUT ?= 30m
TESTFLAGS ?=
# These link kube-apiserver, which is upstream's to watch: they run as the binaries are built, so that it is compiled once.
# test/fabric replays a real cluster in one goroutine, which the race detector would only slow down.
SERVER := ./pkg/controlplane ./cmd/local-control-plane ./test/perf/scheduler ./test/fabric
NOT_SERVER = $$(go list ./... | grep -vE '/(pkg/controlplane|cmd/local-control-plane|test/perf/scheduler|test/fabric)$$')

BENCH ?= .
BENCH_PACKAGES := $(patsubst %,./%/...,$(wildcard pkg/topology pkg/allocate pkg/ledger pkg/placement pkg/gang pkg/book pkg/spread pkg/request pkg/record pkg/engine pkg/plugins))

# Of bench-gang: what is scheduled, which pods exist when a scheduler begins, by whom, and how often.
BENCH_SIZE ?= 512Nodes_125Gangs
BENCH_MODE ?= backlog
BENCH_VARIANTS ?= no-decision,default,in-tree,crd,crd-flat,native
BENCH_ROUNDS ?= 3
export BENCH_ROUNDS

# Of bench-scale: the cluster, and the smaller one that it is compared with.
BENCH_NODES ?= 10000
BENCH_SMALL_NODES ?= 1000

export FUZZTIME ?= 30s

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: bin/kwok ## Build the scheduler, the command line tool and the local control plane into bin/, with KWOK beside them.
	$(STATIC) go build -ldflags '$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,$(COMMANDS))

.PHONY: test
test: build ## Run every test, with the race detector where a C compiler is found.
	@status=0; \
	echo '$(TEST) of all packages but $(SERVER)'; \
	$(TEST) -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $(NOT_SERVER) || status=1; \
	echo 'go test of $(SERVER)'; \
	$(STATIC) go test -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $(SERVER) || status=1; \
	exit $$status

.PHONY: test-integration
test-integration: build ## Run only the tests that start an API server, never from the test cache.
	$(TEST) -timeout $(TEST_TIMEOUT) -count=1 $(TESTFLAGS) ./test/integration/... ./pkg/controlplane/process/...

SEED ?= 1
DURATION ?= 60s

.PHONY: chaos
chaos: build ## Try to make the scheduler lose a GPU or sell it twice, for DURATION (60s) from SEED (1), and print what happened.
	$(STATIC) go test -vet=off ./test/chaos -run '^TestChaos$$' -count=1 -v -timeout 0 -chaos.seed=$(SEED) -chaos.duration=$(DURATION) $(CHAOSFLAGS)

.PHONY: bench
bench: ## Run the Go benchmarks of the core and of the engine; BENCH=REGEXP picks some.
	$(STATIC) go test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 60m $(BENCH_PACKAGES)

.PHONY: bench-throughput
bench-throughput: build ## Bind 1000 GPU pods on 512 simulated nodes with our plugins on and off, and print the ratio.
	bin/kubectl-gputopo bench throughput

.PHONY: bench-gang
bench-gang: build ## Schedule 125 gangs on 512 nodes by our plugins and by the in-tree ones, in turn, and print pods/s and CPU.
	@mkdir -p bin/bench
	$(STATIC) go run ./test/perf/outside --binaries bin --size $(BENCH_SIZE) --mode $(BENCH_MODE) --variants $(BENCH_VARIANTS) \
	  --rounds $(BENCH_ROUNDS) --out bin/bench-gang-$(BENCH_SIZE)-$(BENCH_MODE).json \
	  --run bin/bench/outside-$(BENCH_SIZE)-$(BENCH_MODE).json

.PHONY: bench-seed
bench-seed: ## Schedule 1000 pods of 4 GPUs on 512 nodes by everything of ours, by the default scheduler, and by nobody: the ceiling.
	$(MAKE) bench-gang BENCH_SIZE=512Nodes_125Gangs BENCH_VARIANTS=no-decision,default,crd

.PHONY: bench-cycle
bench-cycle: ## Run scheduling cycles of single pods alone, by the default plugins and by ours: CPU time and allocations a pod.
	$(STATIC) go test -vet=off ./test/perf/cycle -run '^$$' -bench Cycle -benchtime 6x

# The limits are what the project promises; the run fails where one is missed, and its results are there all the same.
.PHONY: bench-scale
bench-scale: build ## Start schedulers and kill their leader among 10000 nodes and 20000 running pods: time, memory, time for a pod.
	@mkdir -p bin/bench
	$(STATIC) go run ./test/perf/outside scale --binaries bin --nodes $(BENCH_NODES) --small-nodes $(BENCH_SMALL_NODES) \
	  --rounds $(BENCH_ROUNDS) --max-first-bind 10 --max-rss 1.3 --max-growth 1.3 --max-takeover 5 \
	  --out bin/bench-scale-$(BENCH_NODES).json --run bin/bench/outside-scale-$(BENCH_NODES).json

.PHONY: bench-scheduler
bench-scheduler: bin/etcd ## Run every workload of scheduler_perf in its small size; BENCH_SUITE=REGEXP picks some (Seed, Spread, ...).
	$(STATIC) hack/bench-scheduler.sh short

.PHONY: bench-scheduler-full
bench-scheduler-full: bin/etcd ## The same in the full sizes, which takes hours.
	$(STATIC) hack/bench-scheduler.sh performance

.PHONY: bench-report
bench-report: ## Write the tables of docs/benchmarks.md from what the runs left in bin/bench.
	$(STATIC) go run ./test/perf/report table

.PHONY: bench-check
bench-check: bin/benchstat ## Compare the Go benchmarks of the tree with those of BASE=COMMIT, and fail where they are worse.
	$(STATIC) hack/bench-check.sh '$(BASE)'

.PHONY: demo
demo: build ## Start a control plane with simulated GPU nodes, schedule pods and gangs on it and check every placement.
	bin/kubectl-gputopo demo

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s each).
	$(STATIC) hack/fuzz.sh

.PHONY: update
update: ## Format the code and tidy go.mod; with K8S=1.37.2, point go.mod at that Kubernetes release first.
	hack/update.sh $(K8S)

.PHONY: verify
verify: bin/golangci-lint ## Run every check that is not a test, report all failures, then look for uncommitted changes.
	$(STATIC) hack/verify.sh

.PHONY: lint
lint: bin/golangci-lint ## Run the linters alone.
	$(STATIC) hack/verify-lint.sh

.PHONY: tools
tools: bin/golangci-lint bin/kwok bin/etcd bin/benchstat ## Build the tools of other projects into bin/.

.PHONY: clean
clean: ## Remove bin/; Go's own caches stay.
	rm -rf bin

# One binary alone, as the Dockerfile wants it.
.PHONY: $(BINARIES)
$(BINARIES): bin/%:
	$(STATIC) go build -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

# A tool is built once for each version: the file's name carries the version, bin/NAME points to it.
.PHONY: bin/kwok bin/golangci-lint bin/etcd bin/benchstat
bin/kwok: bin/kwok-$(KWOK_VERSION)
bin/golangci-lint: bin/golangci-lint-$(GOLANGCI_LINT_VERSION)
bin/etcd: bin/etcd-$(ETCD_VERSION)
bin/benchstat: bin/benchstat-$(BENCHSTAT_VERSION)
bin/kwok bin/golangci-lint bin/etcd bin/benchstat:
	@ln -sf $(notdir $<) $@

bin/kwok-$(KWOK_VERSION): PACKAGE := sigs.k8s.io/kwok/cmd/kwok@$(KWOK_VERSION)
bin/golangci-lint-$(GOLANGCI_LINT_VERSION): PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
bin/benchstat-$(BENCHSTAT_VERSION): PACKAGE := golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION)
bin/kwok-$(KWOK_VERSION) bin/golangci-lint-$(GOLANGCI_LINT_VERSION) bin/benchstat-$(BENCHSTAT_VERSION): bin/%:
	$(STATIC) GOBIN=$(CURDIR)/bin/.$* go install -ldflags '-s -w' $(PACKAGE)
	@mv bin/.$*/$(firstword $(subst -v, ,$*)) $@
	@rmdir bin/.$*

# The release that the control plane links, as a program of its own for scheduler_perf.
bin/etcd-$(ETCD_VERSION):
	$(STATIC) go build -ldflags '-s -w' -o $@ go.etcd.io/etcd/server/v3
