# Run make help for a list of targets.
SHELL := bash
export CGO_CFLAGS := -Wno-deprecated-declarations
ifeq ($(shell go env GOARCH),amd64)
export GOEXPERIMENT := simd
endif
BIN := .bin
# Targets with position-independent executables, which are loaded at a random address.
PIE := linux/amd64 linux/arm64 linux/ppc64le linux/riscv64 linux/s390x freebsd/amd64 \
	darwin/amd64 darwin/arm64
BUILDMODE := $(if $(filter $(PIE),$(shell go env GOOS)/$(shell go env GOARCH)),pie,default)
STATICCHECK := go tool -modfile=tools/lint.mod staticcheck

.DEFAULT_GOAL := help
.PHONY: help run build install test check fmt-check vet lint vulncheck gen-check proto kernels kernels-check gpu-check
.PHONY: properties race repeat fuzz fuzz-execs bench bench-shares chaos identity dst mutate damaged soak soak-plot
.PHONY: sim-error pool-check scheduler-studies bench-switch rolling rounds interleavings nats

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

build: ## build .bin/troupe
	@mkdir -p $(BIN)
	go build -trimpath -buildmode=$(BUILDMODE) -o $(BIN)/troupe ./cmd/node
	@[ $(BUILDMODE) = default ] || go version -m $(BIN)/troupe | grep -q buildmode=$(BUILDMODE) || \
	{ echo "$(BIN)/troupe is not position-independent"; exit 1; }

PREFIX ?= /usr/local
install: build ## install troupe to PREFIX/bin (default /usr/local/bin)
	install -D -m 755 $(BIN)/troupe $(DESTDIR)$(PREFIX)/bin/troupe

run: build ## run one node with the shipped model and request a completion
	$(BIN)/troupe up --config examples/quickstart.yaml --try "In the beginning"

# The packages whose tests take the longest, which begin first so that none is left over at the end.
LONG := ./testkit/dst ./testkit/cluster ./cluster/natsd ./cmd/node ./engine/llama ./actors/model/replica \
	./testkit/identity ./cuda/driver ./simulate ./testkit/chaos ./modelfile/chat ./cluster/members \
	./simulate/scenario ./testkit/conformance ./tools/gpucheck

# Packages tested at once. Many tests wait for processes, disks and leases, so that one for each core would leave
# cores idle.
PACKAGES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

# make test runs its parts at the same time. The tests of ./node take the longest, and are two parts. Properties
# are tested with the same 30 inputs each time; make properties tests them with others.
GOTEST = RAPID_SEED=1 RAPID_CHECKS=30 go test -vet=off -p $(PACKAGES) -timeout 20m
TEST_PARTS := test-node-1 test-node-2 test-others
.PHONY: $(TEST_PARTS)
test: ## run all tests
	go list -export ./... >/dev/null # compile, so that no two parts compile the same package at once
	@$(MAKE) --no-print-directory --keep-going -j $(words $(TEST_PARTS)) $(TEST_PARTS)

test-node-1:
	$(GOTEST) ./node -run '^Test[A-M]'

test-node-2:
	$(GOTEST) ./node -skip '^Test[A-M]'

test-others:
	$(GOTEST) $$(go list $(LONG) ./... | grep -vxF -e troupe -e troupe/node)

CHECKS ?= 1000
properties: ## run all properties CHECKS times (1000) each, with random seeds; SEED=7: with this one
	go test -vet=off -count=1 -p $(PACKAGES) -timeout 0 \
	  $$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | awk '/net\/rapid/ {print $$1}') \
	  -rapid.checks=$(CHECKS) -rapid.seed=$(SEED)

# The race detector would delay the exit of every process by a second.
GORACE := atexit_sleep_ms=0

# Runs of make repeat, and what it runs: all tests, or those of the packages in PKGS.
REPEAT = $(if $(filter file,$(origin N)),10,$(N))
PKGS ?=
repeat: ## run make test N (10) times uncached, every second with all cores busy; PKGS=./node: only this, with -race
	go build -o $(BIN)/repeat ./tools/repeat
	GOFLAGS=-count=1 RAPID_SEED=1 GORACE=$(GORACE) $(BIN)/repeat -n $(REPEAT) -keep $(BIN)/repeated -- \
	$(if $(PKGS),go test -vet=off -race -p $(PACKAGES) -timeout 40m $(PKGS),$(MAKE) test)

race: ## run all tests under the race detector
	RAPID_SEED=1 GORACE=$(GORACE) go test -vet=off -race -timeout 40m ./...

check: fmt-check vet lint gen-check kernels-check vulncheck ## check format, code, generated files, layers, wording
	go test -count=1 .

fmt-check:
	@out=$$(gofmt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$')); \
	if [ -n "$$out" ]; then echo "not formatted, run gofmt -w:"; echo "$$out"; exit 1; fi

vet:
	go vet ./...
	GOEXPERIMENT= go vet ./cuda/... ./cmd/node

lint:
	$(STATICCHECK) ./...

vulncheck: ## check called code for known vulnerabilities; skipped without access to the database
	@tools/vulncheck/run.sh ./...

proto: ## regenerate messages/*.pb.go
	go run ./tools/protogen . messages/*.proto

gen-check: ## check that generated code matches the .proto files
	@tmp=$$(mktemp -d) && mkdir $$tmp/messages && cp messages/*.proto $$tmp/messages && \
	go run ./tools/protogen $$tmp messages/*.proto && \
	for f in messages/*.pb.go; do cmp -s $$f $$tmp/$$f || \
	  { echo "$$f does not match its .proto; run make proto"; exit 1; }; done; rm -rf $$tmp

kernels: ## compile cuda/kernels/cu to PTX (needs clang 19, no CUDA)
	cuda/kernels/generate.sh cuda/kernels/ptx/sm_80.ptx

kernels-check: ## check that the PTX matches cuda/kernels/cu
	@if ! command -v clang++-19 >/dev/null; then \
	  echo "NOT CHECKED: whether the PTX matches its source; install clang-19"; exit 0; fi; \
	tmp=$$(mktemp) && cuda/kernels/generate.sh $$tmp && { cmp -s $$tmp cuda/kernels/ptx/sm_80.ptx || \
	  { echo "the PTX does not match cuda/kernels/cu; run make kernels"; exit 1; }; }; rm -f $$tmp

gpu-check: ## build .bin/gpu-check.tar.gz, which tests a GPU machine without Go, and run it here
	@rm -rf $(BIN)/gpu-check && mkdir -p $(BIN)/gpu-check
	CGO_ENABLED=0 go test -c -trimpath -o $(BIN)/gpu-check/gpucheck.test ./tools/gpucheck
	@cp tools/gpucheck/run.sh $(BIN)/gpu-check/ && cp -r models/kjv-2m $(BIN)/gpu-check/model
	@tar -C $(BIN) -czf $(BIN)/gpu-check.tar.gz gpu-check
	$(BIN)/gpu-check/run.sh

FUZZTIME ?= 20s
fuzz: ## run every fuzz target for FUZZTIME (default 20s)
	@go list ./... | while read p; do \
	  for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do echo "$$p $$f"; \
	  go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; done; done

FUZZEXECS ?= 1000000x
FUZZMEMORY ?= 4194304
fuzz-execs: ## run every fuzz target FUZZEXECS times (1000000x) within FUZZMEMORY KiB (4 GiB)
	@export GOMEMLIMIT=1GiB MALLOC_ARENA_MAX=1; go list ./... | while read p; do \
	  for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do echo "$$p $$f"; \
	  go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZEXECS) -timeout 0 -parallel 1 \
	    -exec "bash -c 'ulimit -v $(FUZZMEMORY) && exec \"\$$0\" \"\$$@\"'" $$p || exit 1; done; done

MINUTES ?= 5
SEED ?= 0
chaos: ## inject faults into three nodes under load for MINUTES (5), with SEED (default: the time)
	go run ./tools/chaos --minutes $(MINUTES) --seed $(SEED)

LENGTH = $(if $(filter file,$(origin MINUTES)),30s,$(MINUTES)m)
KILLS ?= $(if $(filter 30s,$(LENGTH)),2,5)
NODES ?= 2
identity: ## switch, park and wake models for MINUTES (half of one), kill nodes KILLS (2 or 5) times, check every token
	go test -count=1 -v -timeout 0 -run '^TestModelsStayThemselves$$' ./testkit/identity \
	  -length $(LENGTH) -kills $(KILLS) -nodes $(NODES) -seed $(SEED)

ROUNDS ?= 1000
rounds: ## park and activate a model ROUNDS (1000) times, and check that nothing grows
	go test -count=1 -v -timeout 0 -run '^TestRoundsLeaveNothing$$' ./testkit/identity -rounds $(ROUNDS)

SHARING := switching wake residency preempt replica turns hostcache deployment session
INTERLEAVINGS ?= 1000000
interleavings: ## check the state machines that share GPUs and models in INTERLEAVINGS (1,000,000) random runs
	go test -count=1 -timeout 0 -p 1 -run '^TestInvariants$$' $(SHARING:%=./core/%) \
	  -rapid.checks=$$(( ($(INTERLEAVINGS) + $(words $(SHARING)) - 1) / $(words $(SHARING)) ))

SEEDS ?= 500
FROM ?= 1
NODES ?= 3
FAULTS ?= 14
ONLY ?=
dst: ## run a cluster for SEEDS (500) seeds, or SEED; also FROM, NODES, FAULTS, ONLY, BURST, TRACE: see docs/testing.md
	go test -count=1 -v -timeout 60m -run '^TestSeeds$$' ./testkit/dst \
	  -seeds $(SEEDS) -from $(FROM) -seed $(SEED) -nodes $(NODES) -faults $(FAULTS) $(if $(ONLY),-only "$(ONLY)") \
	  $(if $(TRACE),-trace) $(if $(BURST),-burst)

N ?= 60
MUTATE_SEED = $(if $(filter 0,$(SEED)),1,$(SEED))
mutate: ## make N (60) protocol-breaking changes that SEED (1) selects; show which runs or tests find each
	go run ./tools/mutate -n $(N) -seed $(MUTATE_SEED)

DAMAGED ?= 500
damaged: ## start a node from DAMAGED (500) damaged data folders and check that it restores its store
	TROUPE_DAMAGED=$(DAMAGED) go test -run '^TestDamagedStore$$' -timeout 60m ./cluster/recovery

REQUESTS ?= 100000
soak: ## serve REQUESTS (100000) and check memory, goroutines, descriptors and watchers for leaks
	TROUPE_SOAK=$(REQUESTS) go test -run '^TestSoak$$' -v -timeout 60m ./node | grep -v '"level":"info"'

ROLLING ?= 200
rolling: ## restart three nodes in turn behind a balancer, under ROLLING (200) requests without retry
	TROUPE_ROLLING=$(ROLLING) go test -count=1 -run '^TestRestartBehindBalancer$$' -v ./testkit/cluster

SOAK ?= 30m
soak-plot: ## run a mixed load on two nodes for SOAK (30m), write docs/soak.svg and check for leaks
	go run ./tools/soak --length $(SOAK)

bench: ## run the benchmarks and write docs/benchmarks.md
	go run ./tools/bench > docs/benchmarks.md.new && mv docs/benchmarks.md.new docs/benchmarks.md

bench-switch: ## measure cold, parked, peer and standby switches over their floors, in one table
	go run ./tools/bench -switch

sim-error: ## compare the simulator with a real cluster of three nodes, and write docs/simulations/error.md (25 minutes)
	go run ./tools/simerror

pool-check: ## serve six models on three nodes for ten minutes, beside the simulator; writes docs/simulations/pool.md
	go run ./tools/poolcheck

scheduler-studies: ## simulate the scheduler beside its bounds, and write docs/simulations/scheduler.md (3 hours)
	cd tools/bound && npm ci --silent || echo "without npm, there are no bounds"
	go run ./tools/schedstudy $(STUDY)

bench-shares: ## measure a tenant while another one floods, and write docs/benchmarks-shares.md
	go run ./tools/bench -shares > docs/benchmarks-shares.md.new && \
	mv docs/benchmarks-shares.md.new docs/benchmarks-shares.md

nats: ## build the nats command line to .bin/nats (several minutes the first time)
	@mkdir -p $(BIN)
	GOEXPERIMENT= GOBIN=$(CURDIR)/$(BIN) go build -modfile=tools/nats.mod -o $(BIN)/nats github.com/nats-io/natscli/nats
