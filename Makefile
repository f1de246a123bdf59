# The verbs of this repository. `make` prints this help.
.DEFAULT_GOAL := help
.PHONY: help build test race modules vet fuzz bench sim mutants compare nightly

help: ## print this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

build: ## build bin/tenure
	go build -o bin/tenure ./cmd/tenure

test: ## all tests of the main module
	go test ./...

# Packages with goroutines; the pure ones have nothing to race with, but kv's
# readers run beside its writer.
RACE := $(shell go list ./... | grep -E '/(kv|clock|driver|wal|peer|watch|node|etcdapi|server|engine|leasetest|fence|cmd|examples)|/tenure$$')
race: ## race detector on the packages with goroutines
	go test -race $(RACE)

vet: ## vet and staticcheck
	go vet ./...
	go tool staticcheck ./...

MODULES := $(filter-out ./go.mod,$(shell find . -name go.mod -not -path './.git/*'))
modules: ## build, vet and test (-short) every other Go module in the repository
	@for m in $(MODULES); do d=$$(dirname $$m); echo "-- $$d"; (cd $$d && go vet ./... && go test -short ./...) || exit 1; done

FUZZTIME ?= 20s
fuzz: ## run every fuzz target for FUZZTIME (20s)
	@for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
		echo "-- $$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || exit 1; done; done

bench: ## micro benchmarks
	go test -run '^$$' -bench . -benchmem ./...

sim: ## many simulated worlds: make sim WORLDS=2000, or SEED=42 to replay one
	go test ./sim -run '^TestWorlds$$' -timeout 2h -v -worlds $(WORLDS) -seed $(SEED)
WORLDS ?= 2000
SEED ?= 0

mutants: ## break every safety rule once; the simulator must notice
	go test ./sim -run '^TestMutants$$' -timeout 2h -v -mutants all

compare: ## etcd and Tenure side by side: medians of three runs, ratios
	cd compat && go run ./bench -runs 3 -plot ../bench.svg

nightly: ## the long runs: fuzzing, worlds, mutants, the whole differential test, torture, peers
	$(MAKE) fuzz FUZZTIME=60s
	$(MAKE) sim mutants
	@for m in $(MODULES); do d=$$(dirname $$m); echo "-- $$d"; (cd $$d && go test -timeout 3h ./...) || exit 1; done
	$(MAKE) compare
