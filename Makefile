# Headrace. `make` lists what there is.
#
# Needs Go (the version in go.mod) and, for the race detector, a C compiler. Everything else is built from the module
# proxy: the linter's version is fixed in tools.mod, apart from the program's own dependencies.

GO ?= go
BIN := bin
LINT := $(BIN)/golangci-lint
FUZZTIME ?= 10s
BENCH ?= .

.DEFAULT_GOAL := help
.PHONY: help build demo demo-check test browser example-check quick race check vet lint tidy generate generate-check fix-check archtest bench fuzz cover clean

help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/headrace: one static binary, no cgo
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/headrace ./cmd/headrace

demo: build ## Watch a launch day: jobs arrive, workers come and go, every decision is explained
	$(BIN)/headrace demo

demo-check: build ## The demo in half a minute: fails unless it shows what it promises
	$(BIN)/headrace demo --duration 30s -o json

test: ## All tests: the race detector (needs a C compiler), the live page in Chromium, the example over real files
	CGO_ENABLED=1 $(GO) test -race -timeout 20m ./...
	$(MAKE) browser example-check

# Chromium is installed where apt can do it. Elsewhere the page goes untested and the reason is said; CI does not accept that.
browser: ## The live page in a real Chromium
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium; } || \
		{ echo "skipped: the page is not tested, because there is no Chromium and apt cannot install one" >&2; [ -z "$$CI" ]; exit $$?; }
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then \
		$(GO) test -count 1 -tags browser ./internal/dashboard; fi

example-check: ## The documents example over a few hundred files of this machine, checked from the outside
	examples/documents/run.sh

quick: ## All tests, smaller and without the race detector
	$(GO) test -short -timeout 5m ./...

race: ## The tests of everything concurrent, several times over, on 1, 2 and 4 processors
	CGO_ENABLED=1 $(GO) test -race -cpu 1,2,4 -count 2 -timeout 30m ./queue/... ./actuator/... ./downstream/... ./worker/... ./internal/...

check: vet lint tidy generate-check fix-check archtest ## All that is checked besides the tests

vet: ## go vet, for every platform the program runs on
	$(GO) vet ./...
	GOOS=darwin CGO_ENABLED=0 $(GO) vet ./...
	GOOS=windows CGO_ENABLED=0 $(GO) build ./...

# The linter takes about a minute to build on two cores, once.
$(LINT): tools.mod tools.sum
	CGO_ENABLED=0 $(GO) build -modfile=tools.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

lint: $(LINT) ## golangci-lint; every exception says why
	$(LINT) run

tidy: ## go.mod and go.sum say what the sources use
	$(GO) mod tidy -diff

generate: ## Rewrite what is made from the sources: reference pages, schemas
	$(GO) generate ./...

# Compares the work tree with itself, so that it also holds among changes that are not committed yet.
generate-check: ## What is made from the sources is up to date
	@before=$$(git status --porcelain; git diff | git hash-object --stdin); \
	$(GO) generate ./... || exit 1; \
	after=$$(git status --porcelain; git diff | git hash-object --stdin); \
	if [ "$$before" != "$$after" ]; then git --no-pager diff --stat; echo "generated files were out of date: commit them" >&2; exit 1; fi

fix-check: ## The sources use today's Go
	$(GO) fix -diff ./...

archtest: ## Imports go down only
	$(GO) test ./internal/archtest

bench: ## Benchmarks; BENCH=Decide picks some, compare two runs with benchstat
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...

fuzz: ## Every fuzz target for FUZZTIME=10s each
	@for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$p || exit 1; \
		done; \
	done

cover: ## Coverage of all packages by all tests, as bin/coverage.html
	@mkdir -p $(BIN)
	$(GO) test -short -coverpkg ./... -coverprofile coverage.out ./...
	$(GO) tool cover -func coverage.out | tail -n 1
	$(GO) tool cover -html coverage.out -o $(BIN)/coverage.html

clean: ## Remove what was built
	rm -rf $(BIN) coverage.out
