# The verbs of this repository. `make` prints this help.
.DEFAULT_GOAL := help
.PHONY: help build static man completion deb lab test race guard modules modules-long upgrade vet fuzz fuzz-draw bench sim wholesim mutants draw survivors worlds-draw compare nightly

help: ## print this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

build: ## build bin/tenure
	go build -o bin/tenure ./cmd/tenure

# The same sources make the same file, wherever they are built: paths are left out, and the version is
# that of the commit.
STATIC ?= bin/static/tenure
static: ## build bin/static/tenure: no libraries, the same bytes on each machine
	CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags '-s -w -buildid=' -o '$(STATIC)' ./cmd/tenure

man: ## write the manual pages to bin/man
	rm -rf bin/man && mkdir -p bin/man
	go test ./cmd/tenure -run '^TestManPages$$' -count=1 -man "$(CURDIR)/bin/man"
	gzip -9n bin/man/*.1

completion: static ## write what shells need to complete commands to bin/completion
	mkdir -p bin/completion
	for shell in bash zsh fish; do bin/static/tenure completion $$shell >bin/completion/tenure.$$shell || exit 1; done

# A commit without a tag is older than each version: Debian sorts 0.0.0~ before 0.0.0.
VERSION ?= $(or $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//; s/-/+/; y/-/./'),$(shell git log -1 --date=format:%Y%m%d%H%M%S --format='0.0.0~%cd.%h'))
ARCH ?= $(shell go env GOARCH)
deb: static man completion ## pack bin/tenure_VERSION_ARCH.deb
	cd dist && go build -o ../bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
	VERSION='$(VERSION)' ARCH='$(ARCH)' SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) bin/nfpm package -f dist/debian/nfpm.yaml -p deb -t bin/

lab: ## build bin/tenure-lab: simulated worlds, figures of papers, comparisons; it does not ship
	go build -o bin/tenure-lab ./cmd/tenure-lab

test: ## all tests of the main module
	go test ./...

# Packages with goroutines; the pure ones have nothing to race with, but kv's
# readers run beside its writer.
RACE := $(shell go list ./... | grep -E '/(kv|broadcast|clock|driver|register|wal|peer|quietlog|watch|node|etcdapi|server|engine|holder|leasetest|fence|cli|cmd|examples)(/|$$)|/tenure$$|/lab/sim$$')
# Some take so long under it that only `make nightly` runs them.
SLOW ?= $(foreach p,$(RACE),$(if $(findstring /examples/,$p),$p)) %/holder/etcd %/holder/flease %/register/redis %/cmd/tenure %/cmd/tenure-lab %/register/file %/node
race: ## race detector on the packages with goroutines; SLOW= leaves nothing out
	go test -race -timeout 1h -skip "^TestMutants$$" $(filter-out $(SLOW),$(RACE))

# A test that waits for something may fail by chance, most of all on a machine that has much
# else to do: so six packages run at a time.
RUNS ?= 100
steady: ## the packages with goroutines RUNS (100) times, under load
	go test -p 6 -count $(RUNS) -timeout 24h -skip "^TestMutants$$" $(RACE) $(WHOLE)
	@echo "$(RUNS) runs of each"

# The draw follows from the commit: another one draws others, the same one the same.
COMMIT := $(shell git rev-parse HEAD)
SHUF := shuf --random-source=<(yes $(COMMIT) | head -c 65536)
fuzz-draw: SHELL := /bin/bash

vet: ## vet and staticcheck
	go vet ./...
	go tool staticcheck ./...

MODULES := $(filter-out ./go.mod,$(shell find . -name go.mod -not -path './.git/*' -not -path '*/testdata/*'))
modules: ## build, vet and test (-short) every other Go module in the repository
	@for m in $(MODULES); do d=$$(dirname $$m); echo "-- $$d"; (cd $$d && go vet ./... && go test -p 3 -short ./...) || exit 1; done

guard: ## what operations cost one member, in CPU of a bare gRPC echo: fails at a loss of a fifth
	cd compat && go run ./bench -guard bench/testdata/echoes.json -duration 1s

modules-long: ## the same without -short: the whole differential test, torture, peers; for hours
	@bad=; for m in $(MODULES); do d=$$(dirname $$m); echo "-- $$d"; (cd $$d && go test -count=1 -timeout 3h -skip '^TestReadTorture$$' ./...) || bad="$$bad $$d"; done; [ -z "$$bad" ] || { echo "failed:$$bad"; exit 1; }

# The first commit whose members talk to those of today.
OLDER ?= a972660d
upgrade: ## members of an OLDER commit, upgraded one after the other under attack
	@dir=$$(mktemp -d) && git archive $(OLDER) | tar x -C "$$dir" && (cd "$$dir" && go build -o tenure-older ./cmd/tenure) && \
		(cd compat && TENURE_COMPAT_OLDER="$$dir/tenure-older" go test ./torture -run '^TestUpgrade$$' -count=1 -timeout 1h -v $(if $(SEEDS),-seeds $(SEEDS))); \
		bad=$$?; rm -rf "$$dir"; exit $$bad

# Counted, not timed: before Go 1.27 the end of a time may be taken for a failure, most of all
# on a busy machine (go.dev/issue/75804).
FUZZTIME ?= 100000x
fuzz: ## run every fuzz target for FUZZTIME (100000x)
	@bad=; for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
		echo "-- $$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$p || bad="$$bad $$f"; done; done; [ -z "$$bad" ] || { echo "failed:$$bad"; exit 1; }

fuzz-draw: ## fuzz a target, drawn at random, for FUZZTIME
	@go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | while read -r d; do (cd $$d && grep -hoE '^func Fuzz[A-Za-z0-9_]+' *_test.go 2>/dev/null | sed "s|^func |$$d |"); done | \
		$(SHUF) -n 1 | while read -r d f; do echo "-- $$d $$f"; (cd $$d && go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) .) || exit 1; done

bench: ## micro benchmarks
	go test -run '^$$' -bench . -benchmem ./...

# The packages that simulate a protocol each, or the one that SIM names.
SIM ?= $(shell go list ./internal/lab/... | grep -E '/lab/[a-z]+sim$$')
WORLDS ?= 2000
FIRST ?= 1
SEED ?= 0
sim: ## many simulated worlds of each protocol: WORLDS=2000 FIRST=1; SIM=./internal/lab/replicasim SEED=42 replays one
	go test $(SIM) -p 1 -run '^TestWorlds$$' -timeout 2h -v -worlds $(WORLDS) -first $(FIRST) -seed $(SEED)

# The packages that simulate whole processes each: the code that ships, from sockets to disks.
WHOLE ?= $(shell go list ./internal/lab/... | grep -E '/lab/[a-z]+world$$')
DRAWN := ^Test(Worlds|Members|Restarts|Skew|Stalls)$$
wholesim: ## many worlds of whole processes: WORLDS=2000 FIRST=1; WHOLE=./internal/lab/storageworld SEED=42 plays one again
	@bad=; few=$$(($(WORLDS) / 8 + 4)); for p in $(WHOLE); do \
		go test $$p -run '$(DRAWN)' -count=1 -timeout 4h -v -worlds $(WORLDS) -first $(FIRST) -seed $(SEED) || bad="$$bad $$p"; \
		[ $(SEED) -ne 0 ] || go test $$p -skip '$(DRAWN)|^TestMutant' -count=1 -timeout 4h -v -worlds $$few -first $(FIRST) || bad="$$bad $$p, directed"; done; \
	[ $(SEED) -ne 0 ] || go test ./internal/host/register/file -run '^TestDeviceWorlds$$' -count=1 -timeout 1h -v -worlds $(WORLDS) -first $(FIRST) || bad="$$bad devices"; \
	go test ./cmd/tenure -run '^TestGuardWorlds$$' -count=1 -timeout 1h -v -guardworlds $(WORLDS) -guardfirst $(FIRST) || bad="$$bad guard"; [ -z "$$bad" ] || { echo "failed:$$bad"; exit 1; }

# Other worlds than those of `go test`, and few enough for a minute of CPU. A world that fails says
# how to replay it.
worlds-draw: ## worlds under seeds that follow from the commit, or from DRAW=SEED
	go test ./internal/lab/replicasim -run '^(TestWorlds|TestReadLeaseWorlds)$$' -count=1 -worlds 6 -first $(DRAW)
	go test ./internal/lab/replicasim -run '^(TestKeyOrderWorlds|TestPushWorlds)$$' -count=1 -worlds 2 -first $(DRAW)
	go test $(WHOLE) -p 1 -run '^TestWorlds$$' -count=1 -worlds 2 -first $(DRAW)
	go test ./cmd/tenure -run '^TestGuardWorlds$$' -count=1 -guardworlds 100 -guardfirst $(DRAW)

mutants: ## break every rule once, on purpose; a test must notice each. SINCE=COMMIT: those that are new
	go test ./internal/lab/mutant -run '^TestDraw$$' -count=1 -timeout 12h -v -budget all -since '$(SINCE)'

# Planted bugs are those that somebody thought of. These are made by rule, everywhere in a package.
PKG ?= internal/host/peer
BREAKS ?= 0
FILES ?=
BUGS ?=
survivors: ## break a package everywhere, and print what its tests do not notice: PKG=internal/host/peer FILES='hello|frame' BREAKS=25 DRAW=1; BUGS=DIR: by the bugs in files there
	go run ./internal/lab/survivors -n $(BREAKS) -seed $(DRAW) -files '$(FILES)' -bugs '$(BUGS)' $(addprefix ./,$(PKG))

BUDGET ?= 150s
DRAW ?= $(shell printf '%d' 0x$$(git rev-parse HEAD | cut -c1-15))
draw: ## break rules that a seed draws, the commit's or DRAW=SEED, for BUDGET (150s) of CPU
	go test ./internal/lab/mutant -run '^TestDraw$$' -count=1 -timeout 1h -v -budget $(BUDGET) -seed $(DRAW)

compare: ## etcd, sanlock and Redis beside Tenure: medians of three runs, ratios
	cd compat && go run ./bench -runs 3 -plot ../bench.svg
	cd compat && go run ./growth -dir ..
	cd compat && go run ./widearea
	cd compat && go run ./storage/bench -cost-runs 3
	cd compat && go run ./flease -runs 3

nightly: ## the long runs, with a record in docs/nights; SHARE=8 plays an eighth of each
	.ci/nightly
