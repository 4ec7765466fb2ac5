# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Tools have their own module file, so that they never decide a version of our dependencies.
TOOL := go tool -modfile=tools/go.mod
MODULES := . tools tools/helm tools/image tools/suites dev/controlplane dev/cni dev/node dev/kubelet test/alerts test/programs/coredns test/programs/gitops test/programs/karpenter test/programs/vpc test/programs/provisioning
HELM := go tool -modfile=tools/helm/go.mod helm
# The version of a build: the tag, or a future version.
VERSION := $(shell git describe --tags --match 'v*' 2>/dev/null || echo v0.1.0-devel)
# The folder with kube-apiserver, etcd and kubectl: downloaded or built on first use, or KUBEBUILDER_ASSETS if set.
ASSETS = $$(go run ./hack/controlplane)

##@ Try it

.PHONY: demo
demo: ## Run the demo against a simulated AWS and a real API server. KEEP=1 leaves it running, SPEED=n is n times real time, RECORD=1 writes docs/demo.cast and docs/demo.svg
	go run ./cmd/multieni-dev demo $(if $(KEEP),--keep) $(if $(SPEED),--speed $(SPEED)) $(if $(RECORD),--record docs/demo.cast)

.PHONY: bench
bench: ## Measure the controller against EC2's limits, in a few minutes; BENCH=all or BENCH=a1,c selects scenarios; see docs/performance.md
	go run ./test/bench --scenarios $(or $(BENCH),small) $(BENCHFLAGS)

##@ Test a change

# The program that runs tests with their progress and a summary, and measures what each suite costs.
SUITES = @go -C tools/suites build -o ../../bin/suites . && assets=$(ASSETS) && set -x && KUBEBUILDER_ASSETS=$$assets

# Packages in which goroutines meet. The core has none, and commands and suites put these packages together.
RACED = ./awssim/... ./lib/... $$(go list ./internal/... | grep -vE '/internal/(core|cli|dev)(/|$$)')

# Random cases are the same in every run, so that a test fails because of a change and not by chance; `test-long` draws new
# ones, fifty times as many. Suites that wait leave processors to others, so more packages than processors run at a time, the
# longest first.
LONGEST = ./test/scenario ./test/hostile ./test/cni ./test/synctest ./test/simulation ./test/ship ./test/netns
.PHONY: test
test: export RAPID_SEED ?= 1
test: ## Run every package and every kind of suite; a second run repeats only what a change affects
	$(SUITES) bin/suites run -p 3 -timeout 40m $(LONGEST) ./...

.PHONY: test-all
test-all: test test-rest ## Run every suite in full: `test`, then `test-rest`

.PHONY: test-rest
test-rest: test-simulation test-pods test-stories test-oldest test-full test-race ## Run what `test` leaves out: 2,000 seeds, every suite in full, and the race detector

.PHONY: test-simulation
test-simulation: ## Run the controller through 2,000 seeded schedules of 500 steps each; see docs/reliability.md
	$(SUITES) MULTIENI_TESTS=all bin/suites run -timeout 60m ./test/simulation

.PHONY: test-pods
test-pods: ## Run the suite of pod networks in full: pods that wait for minutes for EC2, through Multus
	$(SUITES) MULTIENI_TESTS=all bin/suites run -timeout 60m ./test/cni

.PHONY: test-stories
test-stories: ## Run in full the stories of users, the virtual days and the faults of processes
	$(SUITES) MULTIENI_TESTS=all bin/suites run -p 3 -timeout 60m ./test/scenario ./test/hostile ./test/synctest

.PHONY: test-oldest
test-oldest: ## Run the first minutes on the oldest Kubernetes; the first run compiles its control plane, which takes five minutes
	$(SUITES) MULTIENI_TESTS=all bin/suites run -timeout 60m ./test/versions

.PHONY: test-full
test-full: export RAPID_SEED ?= 1
test-full: ## Run in full all other suites: the programs of a release, and what documents say about them
	$(SUITES) MULTIENI_TESTS=all bin/suites run -timeout 60m $$(go list ./... | grep -vE '/test/(simulation|cni|scenario|hostile|synctest|versions)$$')

.PHONY: test-race
test-race: export RAPID_SEED ?= 1
test-race: ## Run with the race detector what has goroutines
	$(SUITES) MULTIENI_TESTS=all bin/suites run -race -p 4 -timeout 60m $(RACED)

.PHONY: test-measure
test-measure: ## Measure what each suite costs, without and with the race detector, and write it into CONTRIBUTING.md; takes 17 minutes
	$(SUITES) RAPID_SEED=1 bin/suites measure $(RACED)

##@ Test for hours

.PHONY: test-long
test-long: test-cases test-soak test-model test-seeds test-mutants test-versions test-guest test-node fuzz ## Run all that follows

.PHONY: test-cases
test-cases: ## Run unit tests with fifty times as many random cases, new ones every time
	$(SUITES) RAPID_CHECKS=5000 bin/suites run -race -timeout 4h -count=1 ./api/... ./awssim/... ./cmd/... ./hack/... ./internal/... ./lib/...

.PHONY: test-soak
test-soak: ## Run the suites of processes, nodes and virtual days at full length, with the programs of others
	$(SUITES) MULTIENI_TESTS=long bin/suites run -race -timeout 4h -count=1 ./hack/... ./test/cni ./test/hostile ./test/netns ./test/programs ./test/scenario ./test/synctest/...

.PHONY: test-model
test-model: ## Visit every state of the interface protocol with more faults at once; see docs/model.md
	$(SUITES) MULTIENI_TESTS=long bin/suites run -timeout 1h -count=1 ./test/model

SIM_FIRST ?= $(shell date -u +%Y%m%d)00001

.PHONY: test-seeds
test-seeds: ## Run the simulation with 20,000 seeds of the day, or those from SIM_FIRST on
	$(SUITES) SIM_FIRST=$(SIM_FIRST) SIM_SEEDS=20000 bin/suites run -timeout 8h -count=1 -run 'TestSimulation$$' ./test/simulation

.PHONY: test-mutants
test-mutants: ## Show that the simulation still finds each known bug shape near the seed of the table in docs/reliability.md, and each missing rule of its schedules
	$(SUITES) MULTIENI_TESTS=long bin/suites run -timeout 4h -count=1 -run 'TestKillTable$$|TestEachScheduleNeedsItsRule$$' ./test/simulation

.PHONY: mutants
mutants: ## Show that the simulation finds each known bug shape and each missing rule of its schedules, and write the table into docs/reliability.md; takes some minutes
	SIM_MUTANTS=doc MULTIENI_TESTS=long go test -count=1 -timeout 4h -v -run 'TestMutants$$|TestEachScheduleNeedsItsRule$$' ./test/simulation

.PHONY: test-versions
test-versions: ## Run the first minutes on each release of Kubernetes in docs/platforms.md; the first run compiles each, which takes half an hour
	@cd dev/controlplane; for file in kubernetes-*.mod; do (set -x; go mod tidy -diff -modfile=$$file); done
	$(SUITES) MULTIENI_TESTS=long bin/suites run -timeout 3h -count=1 ./test/versions

.PHONY: test-guest
test-guest: ## Run pods on ipvlan in a virtual machine, as root; needs QEMU
	$(SUITES) MULTIENI_TESTS=long bin/suites run -timeout 2h -count=1 -run 'TestPodsByIPVLAN$$' ./test/cni

# docs/reliability.md lists the requirements.
.PHONY: test-node
test-node: ## Run pods on two nodes with a kubelet, containerd and runc each, as root; the first run compiles them, which takes many minutes
	$(SUITES) MULTIENI_NODE=1 bin/suites run -timeout 2h -count=1 -run 'TestKubelets' ./test/cni

FUZZTIME ?= 20000x

# FUZZTIME is a number of inputs, since Go sometimes reports the end of a time limit as a failure. The seeds run in every
# `go test`. Go stores an input that fails in testdata/fuzz of its package: commit it with the fix.
.PHONY: fuzz
fuzz: ## Fuzz every parser of foreign input, each for FUZZTIME
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' api awssim cmd internal lib | sort | while IFS=: read -r file function; do \
	  (set -x; go test -run '^$$' -fuzz "^$${function#func }$$" -fuzztime $(FUZZTIME) ./$${file%/*}) || exit 1; done

##@ Check form

.PHONY: lint
lint: ## Run the linters of .golangci.yml, and check the words of docs/glossary.md
	$(TOOL) golangci-lint run
	go test ./test/documents -run 'TestPlainWords$$'

.PHONY: vuln
vuln: ## Check our code and the dependencies that it calls for known vulnerabilities; needs https://vuln.go.dev
	$(TOOL) govulncheck ./...

.PHONY: verify
verify: ## Check that all code is formatted, vetted and tidy, that generated files are up to date, and that alerts fire as their tests say
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted: $$unformatted; run gofmt -w ." >&2; exit 1; }
	go vet ./...
	@for module in $(MODULES); do (set -x; go -C $$module mod tidy -diff); done
	go -C test/alerts test ./...
	@before=$$(mktemp -d); trap "rm -rf $$before" EXIT; tar cf - $(GENERATED) | tar xf - -C $$before; $(MAKE) generate; \
	  (for part in $(GENERATED); do diff -r $$before/$$part $$part || exit 1; done) || { echo "generated files were out of date and are not now: look at them and keep them" >&2; exit 1; }

##@ Build

.PHONY: build
build: ## Build the programs into bin/
	go build -o bin/ ./cmd/...

# The folders with generated files, which also have files that people write.
GENERATED := api awssim config charts deploy docs internal/aws/awsec2

.PHONY: generate
generate: ## Generate deepcopy functions, definitions, apply configurations and their reference from api/, and manifests from the chart
	go generate ./api/...
	go run ./hack/manifests
	go run ./hack/simulated

.PHONY: image
image: ## Build the container image for amd64 and arm64 into dist/image, an OCI layout; no container engine is needed. PUSH=reference pushes it
	go -C tools/image build -o ../../bin/image .
	bin/image --version $(VERSION) $(if $(PUSH),--push $(PUSH))

.PHONY: image-awssim
image-awssim: ## Build the container image of the simulated AWS into dist/image-awssim, as `image` does. PUSH=reference pushes it
	go -C tools/image build -o ../../bin/image .
	bin/image --of awssim --out dist/image-awssim --version $(VERSION) $(if $(PUSH),--push $(PUSH))

# The platforms of the programs in a release.
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
# The tags leave out code that calls methods by name (net/rpc of Lambda's library, the traces of gRPC's). With such code the
# linker keeps every method of every client.
RELEASE := -trimpath -tags lambda.norpc,grpcnotrace -ldflags "-s -w -X github.com/multieni/multieni/internal/base/version.release=$(VERSION)"

.PHONY: programs
programs: ## Build multieni (for Linux with its agent), kubectl-eni, awssim, and for nodes and Lambda eni-bootstrap, lifecycle-hook and multieni-cni, as archives with checksums in dist/
	@mkdir -p dist
	for platform in $(PLATFORMS); do os=$${platform%/*} arch=$${platform#*/}; \
	  programs="multieni kubectl-eni awssim"; if [ $$os = linux ]; then programs="$$programs eni-bootstrap lifecycle-hook multieni-cni"; fi; \
	  for program in $$programs; do \
	    parts=$$program; if [ $$program-$$os = multieni-linux ]; then parts="multieni eni-manager"; fi; \
	    CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build $(RELEASE) -o dist/$$os-$$arch/ $$(printf './cmd/%s ' $$parts); \
	    cp LICENSE dist/$$os-$$arch/; \
	    tar -C dist/$$os-$$arch -czf dist/$${program}_$(VERSION)_$${os}_$$arch.tar.gz $$parts LICENSE; \
	  done; \
	done
	cd dist && sha256sum *.tar.gz > checksums.txt

.PHONY: chart
chart: ## Package the chart into dist/
	$(HELM) package charts/multieni --version $(VERSION:v%=%) --app-version $(VERSION) --destination dist

.PHONY: controlplane
controlplane: ## Download or build kube-apiserver, etcd and kubectl for tests and the demo once, and print their folder
	@go run ./hack/controlplane

.PHONY: clean
clean: ## Remove the build output bin/ and dist/
	rm -rf bin dist

##@ Help

.PHONY: help
help: ## Show this help
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+: .*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
