# lockstep: `make run` and `make test` do all set-up themselves.

GO        ?= go
PYTHON    ?= $(firstword $(shell command -v python3.11 python3))
VENV      := build/venv
BIN       := bin/lockstep
TESTFLAGS ?=
BENCHFLAGS ?=
# A checkout of github.com/commaai/controls_challenge, for `golden` and `bench`.
UPSTREAM  ?=

GOTESTSUM   := $(GO) run gotest.tools/gotestsum@v1.13.0
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/lockstep
	@mkdir -p build
	$(GO) build -o $(BIN) ./cmd/lockstep

# Without ONNX Runtime everything works but the batched engine; it says so itself.
.PHONY: onnxruntime
onnxruntime: ## fetch ONNX Runtime's library into the user's cache folder
	@$(GO) run ./batched/internal/fetch

.PHONY: run
run: build ## roll routes out on every engine, compare the bits, draw the drives
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	$(BIN) demo --report build/lockstep.html

.PHONY: test
test: ## run all tests, and count what was not run for want of something
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	-@$(MAKE) --no-print-directory $(VENV)/ready >/dev/null
	@mkdir -p build
	@if [ -z "$$LOCKSTEP_PYTHON" ] && [ -f $(VENV)/ready ]; then export LOCKSTEP_PYTHON=$(abspath $(VENV)/bin/python); fi; \
	$(GOTESTSUM) --format pkgname --hide-summary skipped --jsonfile build/test.json -- $(TESTFLAGS) ./...; status=$$?; \
	n=$$(grep -c '"Output":".*not run for want of' build/test.json); \
	if [ "$$n" -gt 0 ]; then echo "$$n tests were not run for want of assets or of Python: \`lockstep doctor\` says what is missing"; fi; \
	exit $$status

ONE_GOLDEN := LOCKSTEP_ONLY=00000/pid $(GO) test -run '^TestTrajectory$$/^ort1.30-avx2-expU-sinfma-csv2$$/^reference$$'

.PHONY: test-noasm
test-noasm: ## hold the plain Go kernels, without any assembly, to Python
	$(GO) test -tags noasm ./reference/... -run 'Python'
	$(ONE_GOLDEN) -tags noasm ./parity

.PHONY: test-avx512
test-avx512: ## the AVX-512 kernels, on an emulated CPU where this one has none
	@scripts/avx512/test.sh

.PHONY: test-nocgo
test-nocgo: ## the program without cgo: the reference alone
	CGO_ENABLED=0 $(GO) build ./...
	CGO_ENABLED=0 $(ONE_GOLDEN) ./parity

.PHONY: test-fused
test-fused: ## the same with a compiler that may fuse products into sums
	GOAMD64=v3 $(GO) test ./generate
	GOAMD64=v3 $(GO) test . ./internal/... ./golden/... ./parity ./reference -run 'Python|Trajectory'

.PHONY: test-race
test-race: ## the concurrent packages under the race detector
	$(GO) test -race -short ./batched ./internal/routecache ./cmd/lockstep

FUZZ_TARGETS := .:FuzzReadRoute ./internal/pandas:FuzzParseFloat ./internal/npz:FuzzRead ./internal/npz:FuzzReadArray \
	./internal/onnx:FuzzParse ./internal/routecache:FuzzParse
FUZZTIME := 5m

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME each
	@for t in $(FUZZ_TARGETS); do $(GO) test $${t%%:*} -run '^$$' -fuzz "^$${t##*:}\$$" -fuzztime $(FUZZTIME) || exit 1; done

.PHONY: fuzz-ci
fuzz-ci: ## run every fuzz target for a fixed number of executions
	@$(MAKE) --no-print-directory fuzz FUZZTIME=20000x

.PHONY: bench
bench: build ## ratios measured in one run; with UPSTREAM=DIR also against Python
	@if [ -n "$(UPSTREAM)" ]; then $(MAKE) --no-print-directory $(VENV)/ready; fi
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	$(BIN) bench $(if $(UPSTREAM),--upstream $(UPSTREAM) --python $(VENV)/bin/python) $(BENCHFLAGS)
	LOCKSTEP_UPSTREAM=$(abspath $(UPSTREAM)) LOCKSTEP_PYTHON=$(if $(UPSTREAM),$(abspath $(VENV)/bin/python)) \
		$(GO) test -run '^$$' -bench 'versus|plain-go' -benchtime 3x ./reference
	$(GO) test -run '^$$' -bench . -benchtime 200ms ./reference/internal/f32
	$(GO) test -run '^$$' -bench . -benchtime 3x ./internal/routecache
	LOCKSTEP_UPSTREAM=$(abspath $(UPSTREAM)) LOCKSTEP_PYTHON=$(if $(UPSTREAM),$(abspath $(VENV)/bin/python)) \
		$(GO) test -run '^$$' -bench . -benchtime 5x ./reference ./reference/internal/f32

.PHONY: golden
golden: need-upstream $(VENV)/ready ## record the goldens again (UPSTREAM=DIR); refuses under another arithmetic
	$(VENV)/bin/python golden/generate.py $(GOLDEN_ARGS) --out golden/testdata

.PHONY: golden-check
golden-check: need-upstream $(VENV)/ready ## record afresh and compare with what is committed (UPSTREAM=DIR)
	$(VENV)/bin/python golden/generate.py $(GOLDEN_ARGS) --check golden/testdata
	$(VENV)/bin/python golden/units.py --upstream $(UPSTREAM) --check golden/testdata

ASSETS ?= $(firstword $(wildcard $(LOCKSTEP_ASSETS) assets ../shared/assets $(HOME)/.cache/lockstep/assets))
GOLDEN_ARGS = --upstream $(UPSTREAM) --model $(ASSETS)/tinyphysics.onnx --routes $(ASSETS)/routes

.PHONY: need-upstream
need-upstream:
	@if [ -z "$(UPSTREAM)" ]; then echo 'set UPSTREAM to a checkout of github.com/commaai/controls_challenge at be8edfa849acdccfa2cb0092151ab28590d63c03'; exit 2; fi
	@if [ ! -f "$(ASSETS)/tinyphysics.onnx" ]; then echo 'no model: run `make assets`, or set LOCKSTEP_ASSETS'; exit 2; fi

$(VENV)/ready: golden/requirements.txt golden/requirements-common.txt
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r golden/requirements.txt
	touch $@

.PHONY: generate
generate: ## generate the assembly again
	cd reference/internal/f32 && $(GO) generate doc.go

.PHONY: generate-check
generate-check: ## check that the committed assembly is what its generator makes
	sh reference/internal/f32/_generate/check.sh

.PHONY: lint
lint: ## gofmt, vet, staticcheck, shell syntax
	@for f in .ci/run scripts/avx512/*.sh reference/internal/f32/_generate/check.sh; do bash -n $$f || exit 1; done
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not gofmt-ed:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags noasm ./...
	$(STATICCHECK) ./...

.PHONY: assets
assets: build ## download the challenge's network
	$(BIN) fetch model

.PHONY: clean
clean: ## remove what was built
	rm -rf bin build
