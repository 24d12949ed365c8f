# make help shows what there is.
SHELL := bash
export CGO_CFLAGS := -Wno-deprecated-declarations
export GORACE := suppressions=$(CURDIR)/tools/race.supp
ifeq ($(shell go env GOARCH),amd64)
export GOEXPERIMENT := simd
endif
BIN := .bin
STATICCHECK := go tool -modfile=tools/lint.mod staticcheck

.DEFAULT_GOAL := help
.PHONY: help run build test check fmt-check vet lint gen-check proto fuzz bench nats

help: ## show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

build: ## build the node binary to .bin/node
	@mkdir -p $(BIN)
	go build -trimpath -o $(BIN)/node ./cmd/node

run: build ## run one node with the shipped model and show a first completion
	$(BIN)/node up --config examples/quickstart.yaml --try "In the beginning"

test: ## run all tests, under the race detector
	go test -race -timeout 10m ./...

check: fmt-check vet lint gen-check ## format, vet, staticcheck, generated code, dependency rules
	go test -run TestLayers .

fmt-check:
	@out=$$(gofmt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$')); if [ -n "$$out" ]; then echo "not formatted, run gofmt -w:"; echo "$$out"; exit 1; fi

vet:
	go vet ./...
	GOEXPERIMENT= go vet ./cuda/... ./cmd/node

lint:
	$(STATICCHECK) ./...

proto: ## regenerate messages/*.pb.go
	go run ./tools/protogen . messages/*.proto

gen-check: ## fail where generated code is not what its source says
	@tmp=$$(mktemp -d) && mkdir $$tmp/messages && cp messages/*.proto $$tmp/messages && go run ./tools/protogen $$tmp messages/*.proto && \
	for f in messages/*.pb.go; do cmp -s $$f $$tmp/$$f || { echo "$$f was not generated from its .proto; run make proto"; exit 1; }; done; rm -rf $$tmp

FUZZTIME ?= 20s
fuzz: ## run every fuzz target for FUZZTIME (20s)
	@go list ./... | while read p; do \
	  for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; done; done

bench: ## measure, and write docs/benchmarks.md
	go run ./tools/bench > docs/benchmarks.md.new && mv docs/benchmarks.md.new docs/benchmarks.md

nats: ## build the stock nats command line to .bin/nats (several minutes the first time)
	@mkdir -p $(BIN)
	GOEXPERIMENT= GOBIN=$(CURDIR)/$(BIN) go build -modfile=tools/nats.mod -o $(BIN)/nats github.com/nats-io/natscli/nats
