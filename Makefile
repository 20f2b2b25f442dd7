# lockstep: `make run` and `make test` do all set-up themselves.

GO        ?= go
PYTHON    ?= $(firstword $(shell command -v python3.11 python3))
VENV      := build/venv
BIN       := bin/lockstep
TESTFLAGS ?=
BENCHFLAGS ?=
# A checkout of github.com/commaai/controls_challenge, for `golden` and `bench`.
UPSTREAM  ?=

# Tools have a list of modules of their own, so that they are no dependencies of the library,
# and run without a network once they are here.
GOTESTSUM   := $(GO) tool -modfile=scripts/tools.mod gotestsum
STATICCHECK := $(GO) tool -modfile=scripts/tools.mod staticcheck
GOCYCLO     := $(GO) tool -modfile=scripts/tools.mod gocyclo

# A path as one word of a shell command, whatever is in it.
quoted = '$(subst ','\'',$(1))'
# A path that the tests or the gate use for Python, unless the user names another.
WITH_PYTHON = if [ -z "$$LOCKSTEP_PYTHON" ] && [ -f $(VENV)/ready ]; then export LOCKSTEP_PYTHON=$(call quoted,$(abspath $(VENV)/bin/python)); fi

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/lockstep
	@mkdir -p build
	$(GO) build -o $(BIN) ./cmd/lockstep

# Without ONNX Runtime everything works but the engine onnxruntime; it says so itself.
.PHONY: onnxruntime
onnxruntime: ## fetch ONNX Runtime's library into the user's cache folder
	@$(GO) run ./batched/onnxruntime/internal/fetch

.PHONY: run
run: build ## roll routes out on every engine that is here, compare the bits, draw the drives
	$(BIN) demo --report build/lockstep.html

# What is tested; all but a part of it is for those who know what they changed.
PACKAGES ?= ./...

LOG       ?= build/test.json

# Of go test in `make test`. The cache does not know of what tests load, `make lint` vets, and a
# busy machine may take longer than go test's own ten minutes for a package.
FLAGS     = -vet=off $(if $(filter -count%,$(TESTFLAGS)),,-count=1) $(if $(filter -timeout%,$(TESTFLAGS)),,-timeout=30m) $(TESTFLAGS)

# The log's first line says what it is of; a run that is ended leaves none. Some packages wait
# for processes and clocks, so one more than there are processors is tested at a time.
# A thread of NumPy's OpenBLAS waits for work without sleep for as long as NumPy takes to import, in
# each of hundreds of Pythons. At 2^4 ticks it sleeps; there are as many threads.
.PHONY: test
test: export OPENBLAS_THREAD_TIMEOUT ?= 4
test: venv ## run all tests, never from the cache, and name what was not run for want of something
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	@mkdir -p $(dir $(LOG)) && rm -f $(LOG)
	@$(WITH_PYTHON); together=-p=$$($(GO) run ./cmd/internal/gate/notrun -together) || exit 1; \
	$(GO) run ./cmd/internal/gate/notrun -origin -- $$together $(FLAGS) > $(LOG).begun || exit 1; \
	$(GOTESTSUM) --format pkgname --hide-summary skipped --jsonfile $(LOG).ran -- $$together $(FLAGS) $(PACKAGES); status=$$?; \
	cat $(LOG).begun $(LOG).ran > $(LOG) && rm $(LOG).begun $(LOG).ran || exit 1; \
	$(GO) run ./cmd/internal/gate/notrun $(LOG) || status=1; \
	exit $$status

# Python with what tests ask it, unless the user names one; without Python it goes on.
.PHONY: venv
venv:
	-@[ -n "$$LOCKSTEP_PYTHON" ] || $(MAKE) --no-print-directory $(VENV)/ready >/dev/null

.PHONY: test-whole
test-whole: venv ## the tests of which `make test` runs some cases alone, with all of them: an hour
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	@$(WITH_PYTHON); LOCKSTEP_WHOLE=1 $(GO) test -count=1 -timeout 2h $(TESTFLAGS) \
		$$(git grep -l 'simtest.Whole(' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's#^#./#')

.PHONY: test-missing
test-missing: ## a few commands and tests with one thing of the machine missing at a time
	scripts/missing.sh

.PHONY: test-assets
test-assets: ## run what `make test` has not run for want of the official network and routes, now that they are here
	@$(WITH_PYTHON); $(GO) run ./cmd/internal/gate/notrun -run assets -out build/test-assets.json build/test.json

# The revision that the change is to be merged into; without one every check runs.
BASE      ?=
GATEFLAGS ?=

.PHONY: mutants
mutants: build ## plant every fault, and write what was noticed into parity/mutants/README.md; ended, it goes on where it was
	$(BIN) mutants --markdown --out build/mutants.json > build/mutants.md
	{ sed '/^|/,$$d' parity/mutants/README.md; cat build/mutants.md; } > build/README.md && mv build/README.md parity/mutants/README.md

# A package for make mutation, and flags (--operators confusions, --tests './parity ./fuzz', --seed 7).
PKG ?= ./parity/schema

.PHONY: mutation
mutation: ## judge a package's tests by mutants that nobody chose (PKG=./parity/schema), and enter the score in parity/mutants/MUTATION.md
	$(GO) run ./parity/mutants/mutation --enter $(MUTATIONFLAGS) $(PKG)

.PHONY: mutation-kernels mutation-assembly mutation-python mutation-programs
mutation-kernels: ## the same of the kernels, executed on the CPU: a sample (MUTATIONFLAGS='--most 40 --seed 7')
	$(PYTHON) parity/mutants/tokens/kernels.py --enter $(MUTATIONFLAGS)

mutation-assembly: ## the same of the assembly of x86-64, a sample of each package that has any
	$(PYTHON) parity/mutants/tokens/assembly.py --enter $(MUTATIONFLAGS)

mutation-python: ## the same of the Python package, which make test-python installs
	$(PYTHON_VENV)/bin/python parity/mutants/tokens/package.py --enter $(MUTATIONFLAGS)

mutation-programs: venv ## the same of the Python programs that Go packages carry or write
	@$(WITH_PYTHON); $(PYTHON) parity/mutants/tokens/programs.py --enter $(MUTATIONFLAGS)

.PHONY: mutation-diff
mutation-diff: ## mutants of the lines of Go that differ from the revision BASE; after 200 s no other is judged
	@$(GO) run ./parity/mutants/mutation --operators all --diff $(BASE) --budget 200s

.PHONY: mutants-sample
mutants-sample: build ## plant one fault in each engine, and some of each kind that only tests see
	$(BIN) mutants --only '*-digitize-side'
	for faults in golden-provenance-lost 'vectors-first-*' 'compare-first-*' trace-checksum cache-name-only engines-identity kernels-epsilon route-digits \
		classic-reference-pow-square classic-batched-argmax; do \
		$(BIN) mutants --only "$$faults" || exit 1; done

.PHONY: gate
gate: build venv ## run what a change must pass before it is merged (BASE=REV: what differs from it decides)
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	@$(WITH_PYTHON); \
	$(BIN) gate $(if $(BASE),--base $(BASE)) $(GATEFLAGS)

ONE_GOLDEN := LOCKSTEP_ONLY=g00002/pid $(GO) test $(TESTFLAGS) -run '^TestTrajectory$$/^default$$/^ort1.30-avx2-expU-sinfma-csv2$$/^reference$$'

.PHONY: test-noasm
test-noasm: ## hold the plain Go kernels, without any assembly, to Python
	$(GO) test $(TESTFLAGS) -tags noasm ./reference/... -run 'Python'
	$(ONE_GOLDEN) -tags noasm ./parity

.PHONY: test-avx512
test-avx512: ## the AVX-512 kernels, on an emulated CPU where this one has none
	@scripts/avx512/test.sh

.PHONY: test-arm64
test-arm64: ## the arm64 kernels, recordings and classic control, under qemu-user where this machine is another: an hour
	@scripts/arm64/test.sh

.PHONY: test-arm64-short
test-arm64-short: ## what every change runs of it
	@scripts/arm64/test.sh short

.PHONY: predict-arm64
predict-arm64: ## what the arm64 kernels' inner loops take on CPUs that are not here, by llvm-mca
	@mkdir -p build/arm64
	CGO_ENABLED=0 GOARCH=arm64 GOOS=linux $(GO) test -c -o build/arm64/f32.test ./internal/f32
	CGO_ENABLED=0 GOARCH=arm64 GOOS=linux $(GO) test -c -o build/arm64/classic.test ./batched/classic
	@python3 scripts/arm64/predict.py build/arm64/f32.test build/arm64/classic.test

.PHONY: count-arm64
count-arm64: ## how many instructions a rollout takes on arm64, and how many of them multiply and add, counted by qemu-user
	@scripts/arm64/count.sh

.PHONY: test-nocgo
test-nocgo: ## the program without cgo; a recording is compared
	CGO_ENABLED=0 $(GO) build ./...
	CGO_ENABLED=0 $(ONE_GOLDEN) ./parity

.PHONY: test-fused
test-fused: ## the same with a compiler that may fuse products into sums
	GOAMD64=v3 $(GO) test $(TESTFLAGS) ./internal/generate
	GOAMD64=v3 $(GO) test $(TESTFLAGS) . $$($(GO) list ./internal/... | grep -v /internal/generate$$) ./golden/... ./reference ./batched -run 'Python|Plain|Trajectory'
	GOAMD64=v3 $(GO) test $(TESTFLAGS) ./reference/classic ./batched/classic
	GOAMD64=v3 $(GO) test $(TESTFLAGS) ./parity -run '^TestTrajectory$$/.*/.*/^(reference|batched)$$'

.PHONY: test-race
test-race: ## the concurrent packages under the race detector; what is skipped has one thread, or is slow and has a twin
	$(GO) test -timeout 30m $(TESTFLAGS) -race -short ./batched/onnxruntime ./internal/routecache -skip 'StagesReference|Graph|ExpFused|Vectors|Python|Librar'
	$(GO) test -timeout 30m $(TESTFLAGS) -race ./parity/trace -skip Python
	$(GO) test -timeout 30m $(TESTFLAGS) -race -short ./cmd/lockstep -skip 'Gate|Keep|Stats|StandardOutput|BadFiles|Verify|Goldens|CompareTraces|Replay|Kill|Demo|Own|Debug|Arithmetic|Eval|Bench|Fingerprint|Doctor'
	$(GO) test -timeout 30m $(TESTFLAGS) -race ./gpu -run 'Turns|Recovery|Watchdog|Cancel|Break|Closed'

# CUDA's compiler and header, from Python's package index. CUDA_HOME names another.
NVCC_VENV := build/cuda
CUDA_HOME ?= $(firstword $(wildcard $(NVCC_VENV)/lib/python3*/site-packages/nvidia/cu13))
CUDA_LINK := build/cuda-link
# gorgonia.org/cu names the library only; what it is linked with and which header it sees comes from here.
# Go takes a flag with spaces in it between quotes of either kind.
flag = $(if $(findstring ',$(1)),"$(1)",'$(1)')
WITH_CUDA = CGO_ENABLED=1 CGO_CFLAGS=$(call quoted,-O2 -g $(call flag,-I$(abspath gpu/internal/driver/cuda/include)) $(call flag,-I$(abspath $(CUDA_HOME))/include)) \
	CGO_LDFLAGS=$(call quoted,$(call flag,-L$(abspath $(CUDA_LINK))))

$(NVCC_VENV)/ready: gpu/internal/module/requirements.txt
	rm -rf $(NVCC_VENV)
	$(PYTHON) -m venv $(NVCC_VENV)
	$(NVCC_VENV)/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r gpu/internal/module/requirements.txt
	touch $@

# The recipes ask for CUDA_HOME again, since the package may just have come.
$(CUDA_LINK)/libcuda.a: gpu/internal/driver/cuda/include/cuda.h gpu/internal/driver/cuda/internal/stub/main.go $(NVCC_VENV)/ready
	@mkdir -p $(CUDA_LINK)
	@$(MAKE) --no-print-directory cuda-link

.PHONY: cuda-link
cuda-link:
	@if [ ! -f "$(CUDA_HOME)/include/cuda.h" ]; then echo "no cuda.h in $(CUDA_HOME)/include: set CUDA_HOME to a toolkit, or leave it unset and the header is fetched"; exit 2; fi
	echo '#include <cuda.h>' | $(CC) -E -P -Igpu/internal/driver/cuda/include -I$(call quoted,$(CUDA_HOME)/include) -x c - | $(GO) run ./gpu/internal/driver/cuda/internal/stub -kind loader > $(CUDA_LINK)/loader.c
	$(CC) -O2 -fPIC -Igpu/internal/driver/cuda/include -I$(call quoted,$(CUDA_HOME)/include) -c $(CUDA_LINK)/loader.c -o $(CUDA_LINK)/loader.o
	rm -f $(CUDA_LINK)/libcuda.a && ar rcs $(CUDA_LINK)/libcuda.a $(CUDA_LINK)/loader.o

.PHONY: build-cuda
build-cuda: $(CUDA_LINK)/libcuda.a ## build bin/lockstep with the GPU in it; it runs without one, too
	$(WITH_CUDA) $(GO) build -tags cuda -o $(BIN) ./cmd/lockstep

.PHONY: kernels
kernels: $(NVCC_VENV)/ready ## compile the CUDA kernels into gpu/internal/module and gpu/internal/module/classic
	@$(MAKE) --no-print-directory nvcc
	@$(MAKE) --no-print-directory nvcc-classic

.PHONY: kernels-check
kernels-check: $(NVCC_VENV)/ready ## compile them and compare with what is committed; the PTX assembled is the machine code
	@$(MAKE) --no-print-directory nvcc NVCC_FLAGS=-check
	@$(MAKE) --no-print-directory nvcc-classic CHECK=1

.PHONY: nvcc
nvcc:
	$(GO) run ./gpu/internal/module/build -nvcc $(call quoted,$(CUDA_HOME)/bin/nvcc) $(NVCC_FLAGS)

# Cases of each property: `go test ./gpu` tries them all on the emulated device.
CHECKS ?= 25

.PHONY: test-cuda-standin
test-cuda-standin: $(CUDA_LINK)/libcuda.a ## the program with the GPU in it, on a stand-in driver that runs the kernels on the CPU
	@$(MAKE) --no-print-directory standin
	$(WITH_CUDA) $(GO) vet -tags cuda ./gpu/... ./cmd/...
	LD_LIBRARY_PATH=$(call quoted,$(abspath build/standin)) LOCKSTEP_REQUIRE_GPU=1 $(WITH_CUDA) $(GO) test -tags cuda $(TESTFLAGS) ./gpu/internal/driver/cuda
	LD_LIBRARY_PATH=$(call quoted,$(abspath build/standin)) LOCKSTEP_REQUIRE_GPU=1 $(WITH_CUDA) $(GO) test -tags cuda $(TESTFLAGS) ./gpu -rapid.checks $(CHECKS)

.PHONY: standin
standin:
	gpu/standin/build.sh $(call quoted,$(CUDA_HOME)/include) build/standin

.PHONY: gpu-bundle
gpu-bundle: $(CUDA_LINK)/libcuda.a ## make build/gpu-bundle, which runs gpu-test and gpu-bench on a machine with a driver and no Go
	$(WITH_CUDA) gpu/hardware/bundle.sh build/gpu-bundle

.PHONY: gpu-first
gpu-first: gpu-bundle ## on a GPU: all that has not passed yet, in ten minutes, the most wanted first; adds to gpu/hardware/<GPU>
	build/gpu-bundle/run gpu/hardware

.PHONY: gpu-test
gpu-test: gpu-bundle ## on a GPU: goldens, properties, challenge and compute-sanitizer, each with ten minutes; adds to gpu/hardware/<GPU>
	for step in cuda gpu memcheck racecheck initcheck synccheck; do build/gpu-bundle/run gpu/hardware $$step || exit 1; done

.PHONY: gpu-bench
gpu-bench: gpu-bundle ## on a GPU: time of 792 and 5,000 routes, PyTorch beside it; adds to gpu/hardware/<GPU>
	build/gpu-bundle/run gpu/hardware bench peer

.PHONY: gpu-profile
gpu-profile: gpu-bundle ## on a GPU: what ncu sees in one launch; adds to gpu/hardware/<GPU>
	build/gpu-bundle/run gpu/hardware profile

.PHONY: gate-gpu
gate-gpu: $(CUDA_LINK)/libcuda.a ## the gate on a machine with a GPU, where nothing may be missing
	$(WITH_CUDA) GOFLAGS=-tags=cuda LOCKSTEP_REQUIRE_GPU=1 $(MAKE) --no-print-directory gate GATEFLAGS="--require-hardware $(GATEFLAGS)"

# Native fuzz targets, and how many executions of each fuzz-ci runs. Where a rollout is one, a second has some 20.
FUZZ_TARGETS := ./routefile:FuzzReadRoute:20000 ./internal/pandas:FuzzParseFloat:20000 ./internal/npz:FuzzRead:20000 ./internal/npz:FuzzReadArray:20000 \
	./internal/onnx:FuzzParse:20000 ./internal/routecache:FuzzParse:20000 \
	./fuzz:FuzzTokenizer:300 ./fuzz:FuzzStep:100 ./fuzz:FuzzDraws:100 ./fuzz:FuzzBatch:100 ./fuzz:FuzzAgreement:20 \
	./fuzz:FuzzShortcuts:10 ./fuzz:FuzzTeacher:100 ./fuzz:FuzzLongRoutes:10 ./fuzz:FuzzHistory:40 ./fuzz:FuzzPandas:10000 ./fuzz:FuzzCSV:1000 \
	./fuzz:FuzzClassic:50 ./fuzz:FuzzReadRoute:5000 ./fuzz:FuzzReadModel:10000 ./fuzz:FuzzReadNPZ:10000 ./fuzz:FuzzReadGolden:5000 ./fuzz:FuzzReadCache:1500 ./fuzz:FuzzReadTrace:10000
FUZZTIME := 5m

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME each
	@for t in $(FUZZ_TARGETS); do p=$${t%%:*}; n=$${t#*:}; \
		$(GO) test $$p -fuzz "^$${n%:*}\$$" -fuzztime $(FUZZTIME) || exit 1; done

# Calls in any order, of both families, of which make test runs a few; see TestHistory.
.PHONY: histories
histories: ## 20 calls or more in any order: HISTORIES of classic control and ROLLOUTS of rollouts; every call has come after every other
	$(GO) test ./fuzz -count=1 -timeout 4h -run '^TestClassic$$' -rapid.checks=$(HISTORIES) $(TESTFLAGS)
	$(GO) test ./fuzz -count=1 -timeout 4h -run '^TestHistory(OnDevice)?$$' -rapid.checks=$(ROLLOUTS) $(TESTFLAGS)
histories: HISTORIES ?= 10000
histories: ROLLOUTS ?= 2000

histories-python: HISTORIES ?= 1000

.PHONY: histories-python
histories-python: ## the same of the Python package, which make test-python installs: simulators, rollouts, environments
	$(PYTHON_VENV)/bin/pytest $(PYTESTFLAGS) -s --histories $(HISTORIES) $(addprefix python/tests/test_,history.py env_history.py classic_history.py)

# A package's targets are built once: to link them takes longer than many of them run.
.PHONY: fuzz-ci
fuzz-ci: ## run every fuzz target for a fixed number of executions
	@rm -rf build/fuzz && mkdir -p build/fuzz
	@cache=$$($(GO) env GOCACHE)/fuzz; for t in $(FUZZ_TARGETS); do p=$${t%%:*}; n=$${t#*:}; \
		program=$(call quoted,$(CURDIR))/build/fuzz/$$(echo $$p | tr ./ __).test; \
		[ -e "$$program" ] || $(GO) test -c -fuzz . -o "$$program" $$p || exit 1; \
		echo "$$p $${n%:*}" && (cd $$p && "$$program" -test.run '^$$' -test.fuzz "^$${n%:*}\$$" \
			-test.fuzztime $${t##*:}x -test.fuzzcachedir "$$cache/lockstep/$$p") || exit 1; done

.PHONY: bench
bench: build ## ratios measured in one run; with UPSTREAM=DIR also against Python
	@if [ -n "$(UPSTREAM)" ]; then $(MAKE) --no-print-directory $(VENV)/ready; fi
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	$(BIN) bench $(if $(UPSTREAM),--upstream $(UPSTREAM) --python $(VENV)/bin/python) $(BENCHFLAGS)
	$(GO) test -run '^$$' -bench . -benchtime 3x ./internal/routecache
	LOCKSTEP_UPSTREAM=$(call quoted,$(abspath $(UPSTREAM))) LOCKSTEP_PYTHON=$(if $(UPSTREAM),$(call quoted,$(abspath $(VENV)/bin/python))) \
		$(GO) test -run '^$$' -bench . -benchtime 5x ./reference ./internal/f32

.PHONY: golden
golden: need-upstream $(VENV)/ready ## record the goldens again (UPSTREAM=DIR); refuses under another arithmetic
	$(VENV)/bin/python golden/generate.py $(GOLDEN_ARGS) --out golden/testdata

.PHONY: golden-check
golden-check: need-upstream $(VENV)/ready ## record afresh and compare with what is committed (UPSTREAM=DIR)
	$(VENV)/bin/python golden/generate.py $(GOLDEN_ARGS) --check golden/testdata
	$(VENV)/bin/python golden/units.py --upstream $(UPSTREAM) --check golden/testdata

ASSETS ?= $(firstword $(wildcard $(LOCKSTEP_ASSETS) assets $(HOME)/.cache/lockstep/assets))
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
generate: ## generate the assembly again, and the tables of policies' kinds
	for package in internal/f32 batched/classic; do (cd $$package && $(GO) generate doc.go) || exit 1; done
	$(GO) run ./internal/tables

.PHONY: generate-check
generate-check: ## check that committed assembly and tables are what their generators make
	sh scripts/generate-check.sh internal/f32
	sh scripts/generate-check.sh batched/classic
	$(GO) run ./internal/tables -check
	@if grep -nE '\b[XY](1[6-9]|2[0-9]|3[01])\b|Requires:.*AVX512' $$(git ls-files '*_avx2_amd64.s'); then \
	  echo 'these instructions are AVX-512, in a file for CPUs that have AVX2 alone'; exit 1; fi

.PHONY: lint
lint: ## gofmt, vet, staticcheck, no function with more than 20 ways through it, 100 columns, shell syntax
	@for f in .ci/run $$(git ls-files '*.sh'); do bash -n $$f || exit 1; done
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not gofmt-ed:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags noasm ./...
	$(STATICCHECK) ./...
	$(GOCYCLO) -over 20 $$(git ls-files '*.go')
	@LC_ALL=C awk -f scripts/width.awk $$(git ls-files '*.md' '*.go' '*.cu' '*.cuh' '*.h' '*.cpp')

.PHONY: assets
assets: build ## download the challenge's network
	$(BIN) fetch model

.PHONY: clean
clean: ## remove what was built
	rm -rf bin build

PYTHON_VENV := build/python
# Has the wheel and what it says it needs, and nothing else: what `pip install .` gives.
PLAIN_VENV := build/plain

.PHONY: test-python
test-python: ## the Python package: a wheel from a source distribution, then its linters and tests
	@[ -x $(PYTHON_VENV)/bin/pip ] || $(PYTHON) -m venv $(PYTHON_VENV)
	$(PYTHON_VENV)/bin/pip install --quiet --disable-pip-version-check build ruff mypy
	rm -rf build/dist
	GO=$(GO) $(PYTHON_VENV)/bin/python -m build --outdir build/dist .
	$(PYTHON_VENV)/bin/pip install --quiet --disable-pip-version-check "$$(echo build/dist/*.whl)[test]"
	$(PYTHON_VENV)/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps build/dist/*.whl
	$(PYTHON_VENV)/bin/ruff format --check
	$(PYTHON_VENV)/bin/ruff check
	$(PYTHON_VENV)/bin/mypy
	$(PYTHON_VENV)/bin/pytest $(PYTESTFLAGS)
	rm -rf $(PLAIN_VENV) && $(PYTHON) -m venv $(PLAIN_VENV)
	$(PLAIN_VENV)/bin/pip install --quiet --disable-pip-version-check build/dist/*.whl
	for venv in $(PLAIN_VENV) $(PYTHON_VENV); do required=$$([ $$venv = $(PLAIN_VENV) ] || echo 1); \
		LOCKSTEP_PACKAGE=$(call quoted,$(abspath .))/$$venv/bin/python LOCKSTEP_REQUIRE_PACKAGE=$$required \
		$(GO) test -count 1 -v -run '^TestPythonBlocks$$' ./docs || exit 1; done

# Has what its users have, and is made anew each time: some 6 GB, unless PIP_EXTRA_INDEX_URL names
# an index that has PyTorch without CUDA.
ECOSYSTEM := build/ecosystem
# PufferLib's wheel wants packages older than Gymnasium's present one, and works with the present
# ones; where it does not install, its test says so and is skipped.
PUFFER := 'pufferlib==2.0.2' 'gym==0.23.0' gym_notices psutil rich rich_argparse pynvml imageio \
	cloudpickle opencv-python-headless shimmy pettingzoo

.PHONY: test-ecosystem
test-ecosystem: ## the wheel in a fresh environment, with Stable-Baselines3, PyTorch, TorchRL, Ray, PufferLib, tqdm, pandas and a recorder of videos
	rm -rf $(ECOSYSTEM) && $(PYTHON) -m venv $(ECOSYSTEM)
	GO=$(GO) $(ECOSYSTEM)/bin/pip install --quiet --no-cache-dir --no-compile --disable-pip-version-check \
		'.[test,ray]' stable-baselines3 torchrl
	$(ECOSYSTEM)/bin/pip install --quiet --disable-pip-version-check --no-deps $(PUFFER) || true
	LOCKSTEP_ECOSYSTEM=1 $(ECOSYSTEM)/bin/pytest $(PYTESTFLAGS) -m 'ray or not ray' --durations 5 \
		$(addprefix python/tests/test_,ecosystem.py search.py examples.py) python/tests/test_shards.py::test_ray

# Its tools are in a folder of their own: who installs the package gets none of them.
SITE := build/site

.PHONY: site
site: ## the documentation as a site, build/site/html: pages, notebooks, executed, and the Python package's reference
	@[ -x $(SITE)/venv/bin/pip ] || $(PYTHON) -m venv $(SITE)/venv
	GO=$(GO) $(SITE)/venv/bin/pip install --quiet --disable-pip-version-check '.[test]' -r docs/site/requirements.txt
	$(SITE)/venv/bin/python docs/site/make.py $(SITE)

.PHONY: test-ray
test-ray: ## shards as tasks of Ray, on a cluster of three nodes on this machine
	@[ -x $(PYTHON_VENV)/bin/pip ] || $(PYTHON) -m venv $(PYTHON_VENV)
	GO=$(GO) $(PYTHON_VENV)/bin/pip install --quiet --disable-pip-version-check '.[test,ray]'
	$(PYTHON_VENV)/bin/pytest -m ray python/tests/test_shards.py

.PHONY: test-kills
test-kills: ## a kept run of 300 rollouts, killed a hundred times, and searches, killed 25 times each
	LOCKSTEP_KILLS=100 $(GO) test -count 1 $(TESTFLAGS) ./cmd/lockstep -run '^TestKill$$' -v -timeout 60m

.PHONY: test-damages
test-damages: ## a thousand damages of runs, searches, shards, caches and traces: what reads them prints the same or an error
	LOCKSTEP_DAMAGES=1000 $(GO) test -count 1 $(TESTFLAGS) ./cmd/lockstep -run '^TestDamages$$' -v -timeout 60m

.PHONY: test-edits
test-edits: ## Python controllers, what they import and read, networks and routes, each edited at 50 moments of a run
	LOCKSTEP_EDITS=50 $(GO) test -count 1 $(TESTFLAGS) ./cmd/lockstep -run '^TestEdits$$' -v -timeout 60m

.PHONY: test-faults
test-faults: ## runs, searches, shards and caches on a disk that fails on purpose: HISTORIES of them, of the seed SEED
	$(GO) test $(TESTFLAGS) -count 1 -timeout 120m -v -run '^TestFaults$$' ./cmd/internal/runs -args -histories $(HISTORIES) -seed $(SEED)
test-faults: HISTORIES ?= 100000
SEED      ?= $(shell date +%s)

# The builder of wheels and its compiler, which is one for all platforms.
WHEELS_VENV := build/wheels/venv
WHEELS ?= dist

$(WHEELS_VENV)/ready: python/wheels.txt
	rm -rf $(WHEELS_VENV)
	$(PYTHON) -m venv $(WHEELS_VENV)
	$(WHEELS_VENV)/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r $<
	touch $@

.PHONY: wheel
wheel: ## a wheel for this machine's platform, for glibc 2.28 and newer on Linux, in dist
	@$(MAKE) --no-print-directory wheels PLATFORMS=$$($(GO) env GOOS)/$$($(GO) env GOARCH)

.PHONY: wheels
wheels: $(WHEELS_VENV)/ready ## a wheel for each platform, in dist
	for p in $(PLATFORMS); do LOCKSTEP_PLATFORM=$$p GO=$(GO) GOFLAGS= \
		$(WHEELS_VENV)/bin/hatchling build -t wheel -d $(call quoted,$(abspath $(WHEELS))) || exit 1; done

# Where programs are built for. What needs cgo, ONNX Runtime and the GPU, is not in them.
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64

.PHONY: test-platforms
test-platforms: ## build, vet and link the program for each platform; what Windows does with files, and a rollout, under Wine
	@scripts/platforms/test.sh $(PLATFORMS)

.PHONY: test-arm64-packages
test-arm64-packages: $(WHEELS_VENV)/ready ## under qemu-user: the engine onnxruntime with arm64's library, and the wheel, whose results have x86's hash
	scripts/arm64/packages.sh onnxruntime
	@$(MAKE) --no-print-directory wheels PLATFORMS='linux/arm64 linux/amd64' WHEELS=build/arm64/wheels
	scripts/arm64/packages.sh wheel build/arm64/wheels

VERSION ?=
RELEASE ?= dist/lockstep-$(VERSION)

.PHONY: release
release: ## VERSION=1.2.3: programs and wheels for each platform, licences, SBOM and checksums, in dist; the same bytes from any folder
	$(GO) run ./internal/release -version '$(VERSION)' # before what takes long
	rm -rf $(call quoted,$(RELEASE))
	$(MAKE) --no-print-directory wheels WHEELS=$(call quoted,$(RELEASE))
	$(GO) run ./internal/release -version '$(VERSION)' -out $(call quoted,$(RELEASE)) -platforms '$(PLATFORMS)'

# A compiler's cache could hide that the folder is in the bytes, so that the second has its own.
.PHONY: release-check
release-check: $(WHEELS_VENV)/ready ## VERSION=1.2.3: make the release in two other folders, and compare all bytes
	rm -rf build/release && mkdir -p build/release/another-folder
	git clone -q . build/release/a && git clone -q . build/release/another-folder/b
	@touch $(WHEELS_VENV)/ready # newer than what was cloned: one builder is enough
	$(MAKE) --no-print-directory -C build/release/a release RELEASE=../first WHEELS_VENV=$(call quoted,$(abspath $(WHEELS_VENV)))
	GOCACHE=$(call quoted,$(abspath build/release/cache)) $(MAKE) --no-print-directory -C build/release/another-folder/b release RELEASE=../../second WHEELS_VENV=$(call quoted,$(abspath $(WHEELS_VENV)))
	cd build/release && diff -r first second && cat first/SHA256SUMS

MODULE ?=
.PHONY: rename
rename: ## MODULE=example.org/team/lockstep: give the module another path, in all files
	$(GO) run ./internal/rename -module '$(MODULE)'
	gofmt -w $$(git ls-files '*.go')

# Known vulnerabilities. The databases need a network.
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
AUDIT_VENV := build/audit

.PHONY: audit
audit: ## ask what vulnerabilities are known of Go's modules and Python's packages; what could not be asked is no pass
	@[ -x $(AUDIT_VENV)/bin/pip-audit ] || { $(PYTHON) -m venv $(AUDIT_VENV) && $(AUDIT_VENV)/bin/pip install --quiet --disable-pip-version-check pip-audit==2.9.0; } || true
	scripts/audit.sh '$(GO) run $(GOVULNCHECK)' $(AUDIT_VENV)/bin/pip-audit

.PHONY: vectors-check
vectors-check: $(VENV)/ready ## ask NumPy, pandas, the C library and ONNX Runtime for the results in golden/vectors, and pandas for its records
	$(VENV)/bin/pip install --quiet onnx
	$(VENV)/bin/python golden/vectors/check.py
	$(VENV)/bin/python internal/pandas/testdata/records.py --check

# Gymnasium, for the classic control environments: see docs/classic.md.
GYMNASIUM := build/gymnasium

$(GYMNASIUM)/%/ready: golden/classic/%.txt
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r $<
	touch $@

.PHONY: test-classic
test-classic: $(GYMNASIUM)/requirements/ready ## hold classic control to the Gymnasium that pip installs, CLASSIC_LIVE steps of each environment
	LOCKSTEP_GYMNASIUM=$(call quoted,$(abspath $(GYMNASIUM)/requirements/bin/python)) LOCKSTEP_CLASSIC_LIVE=$(CLASSIC_LIVE) $(GO) test $(TESTFLAGS) -count 1 -timeout 120m -v -run '^TestClassicLive$$' ./fuzz
CLASSIC_LIVE := 100000

.PHONY: test-classic-long
test-classic-long: ## hold the engines of classic control to one another for CLASSIC_STEPS steps
	LOCKSTEP_CLASSIC_STEPS=$(CLASSIC_STEPS) $(GO) test -count 1 -timeout 120m -v -run '^TestClassicLong$$' ./fuzz
CLASSIC_STEPS := 1e8

# The newest packages that pip has, in an environment that is made anew each time.
LATEST := build/latest
LATEST_ROUTES := 12

.PHONY: latest
latest: build need-upstream ## the newest NumPy, pandas, ONNX Runtime and Gymnasium: probes, recordings, 24 rollouts of a random seed and classic control, live (UPSTREAM=DIR)
	rm -rf $(LATEST) build/latest-avx2 && $(PYTHON) -m venv $(LATEST)
	$(LATEST)/bin/pip install --quiet --disable-pip-version-check --only-binary :all: numpy pandas onnxruntime gymnasium matplotlib seaborn tqdm
	LOCKSTEP_PROFILE= LOCKSTEP_PYTHON=$(call quoted,$(abspath $(LATEST)/bin/python)) $(BIN) doctor --fingerprint build/latest.json
	ONNXRUNTIME_LIB=$$(echo $(CURDIR)/$(LATEST)/lib/python*/site-packages/onnxruntime/capi/libonnxruntime.so.*) $(BIN) compare goldens onnxruntime
	$(LATEST)/bin/python scripts/avx2/mask.py build/latest-avx2
	PYTHONPATH=build/latest-avx2 $(LATEST)/bin/python golden/generate.py $(GOLDEN_ARGS) --other-packages --check golden/testdata
	LOCKSTEP_UPSTREAM=$(call quoted,$(abspath $(UPSTREAM))) LOCKSTEP_PYTHON=$(call quoted,$(abspath $(LATEST)/bin/python)) \
		ONNXRUNTIME_LIB=$$(echo $(CURDIR)/$(LATEST)/lib/python*/site-packages/onnxruntime/capi/libonnxruntime.so.*) \
		$(GO) test -count 1 -timeout 60m -v -run '^TestLive$$' ./internal/upstream -args -routes $(LATEST_ROUTES)
	LOCKSTEP_GYMNASIUM=$(call quoted,$(abspath $(LATEST)/bin/python)) LOCKSTEP_CLASSIC_LIVE=$(LATEST_CLASSIC) \
		$(GO) test -count 1 -timeout 60m -v -run '^TestClassicLive$$' ./fuzz
	@$(LATEST)/bin/pip list --disable-pip-version-check | grep -E '^(numpy|pandas|onnxruntime|gymnasium) '; date -u +%F
LATEST_CLASSIC := 10000

.PHONY: golden-classic
golden-classic: $(GYMNASIUM)/requirements/ready $(GYMNASIUM)/requirements-numpy1/ready ## record the goldens of classic control again
	$(GO) run ./golden/classic/record -python $(GYMNASIUM)/requirements/bin/python -python1 $(GYMNASIUM)/requirements-numpy1/bin/python

.PHONY: golden-policies
golden-policies: need-upstream $(VENV)/ready ## record exported controllers in the Python program again (UPSTREAM=DIR)
	@mkdir -p build/controllers
	LOCKSTEP_EXPORT=$(call quoted,$(abspath build/controllers)) $(GO) test -count=1 ./golden/policies -run Export
	$(VENV)/bin/python golden/policies/record.py --upstream $(UPSTREAM) --model $(ASSETS)/tinyphysics.onnx --routes $(ASSETS)/routes --controllers build/controllers --only pidff network --out golden/policies/recordings.npz
	@rm -rf build/own-route && mkdir -p build/own-route && cp internal/defaults/routes/g00002.csv build/own-route
	$(VENV)/bin/python golden/policies/record.py --upstream $(UPSTREAM) --model internal/defaults/tinyphysics-default.onnx --routes build/own-route --controllers build/controllers --out golden/policies/default.npz
	$(VENV)/bin/python scripts/avx2/mask.py build/avx2
	PYTHONPATH=build/avx2 $(VENV)/bin/python golden/policies/record.py --upstream $(UPSTREAM) --model internal/defaults/tinyphysics-default.onnx --routes build/own-route --controllers build/controllers --out golden/policies/default-avx2.npz

CLASSIC_KERNELS := gpu/internal/kernels/classic
CLASSIC_MODULE := gpu/internal/module/classic
# Compiles the kernels of classic control into build/classic, and copies what is made, or with CHECK=1 compares it.
.PHONY: nvcc-classic
nvcc-classic:
	rm -rf build/classic && mkdir -p build/classic
	cd $(CLASSIC_KERNELS) && for t in ptx:compute_80 cubin:sm_90; do \
		$(call quoted,$(abspath $(CUDA_HOME))/bin/nvcc) -std=c++17 -O3 -fmad=false -prec-div=true -prec-sqrt=true -ftz=false -$${t%%:*} -arch=$${t#*:} -Xptxas -v \
			-o $(call quoted,$(abspath build/classic))/classic.$${t%%:*} classic.cu 2>> $(call quoted,$(abspath build/classic))/log || exit 1; done
	awk '/entry function/ { name = $$7 } /Function properties for lockstep/ { getline; spill = $$0 } /Used/ { sub(/ptxas info *: */, ""); print name ": " $$0 "; " spill }' build/classic/log | tr -s ' ' > build/classic/report.txt
	$(GO) run ./gpu/internal/module/build -hash -sources $(CLASSIC_KERNELS) > build/classic/sources.sha256
	$(GO) run ./gpu/internal/module/build -nvcc $(CUDA_HOME)/bin/nvcc -list build/classic/classic.cubin > build/classic/classic.sass
	$(GO) run ./gpu/internal/module/build -nvcc $(CUDA_HOME)/bin/nvcc -list build/classic/classic.cubin -assemble build/classic/classic.ptx
	cd build/classic && for f in ptx cubin sass; do \
		if [ -n "$(CHECK)" ]; then gzip -dc ../../$(CLASSIC_MODULE)/classic.$$f.gz | cmp - classic.$$f || exit 1; else gzip -9nc classic.$$f > ../../$(CLASSIC_MODULE)/classic.$$f.gz; fi; done
	for f in report.txt sources.sha256; do if [ -n "$(CHECK)" ]; then cmp build/classic/$$f $(CLASSIC_MODULE)/$$f || exit 1; else cp build/classic/$$f $(CLASSIC_MODULE)/; fi; done

# What a change runs of it: short policies and recordings in blocks of one, threads in other
# orders, and one environment. `make test-compiled-all` runs everything.
COMPILED_FAULTS := a_barrier_removed|an_FFMA_unfused|an_address_off_by_four
COMPILED_SHORT := ^(TestShort|TestGoldens|TestCompiledOrders)$$/(csv2|blocks_of_1)$$/^blocks_of_1$$

.PHONY: test-compiled
test-compiled: ## the shipped PTX and machine code, executed on the CPU: recordings, short policies, every access checked
	@$(MAKE) --no-print-directory -j 2 --output-sync test-compiled-ptx test-compiled-sass

# Two halves that take about as long as one another: most of a test is one thread's work.
.PHONY: test-compiled-ptx
test-compiled-ptx:
	LOCKSTEP_ENGINE=ptx $(GO) test -count 1 $(TESTFLAGS) ./gpu -run '$(COMPILED_SHORT)'
	LOCKSTEP_ENGINE=ptx $(GO) test -count 1 $(TESTFLAGS) ./gpu/classic -run '^TestGymnasium$$/^CartPole'
	LOCKSTEP_ENGINE=sass $(GO) test -count 1 $(TESTFLAGS) ./gpu -run '^TestCompiledFaults$$/^($(COMPILED_FAULTS))$$'

.PHONY: test-compiled-sass
test-compiled-sass:
	LOCKSTEP_ENGINE=sass $(GO) test -count 1 $(TESTFLAGS) ./gpu -run '$(COMPILED_SHORT)'
	LOCKSTEP_ENGINE=sass $(GO) test -count 1 $(TESTFLAGS) ./gpu/classic -run '^TestGymnasium$$/^CartPole'
	LOCKSTEP_ENGINE=sass $(GO) test -count 1 $(TESTFLAGS) ./gpu/internal/translate -run '^TestSemantics$$'

.PHONY: semantics
semantics: $(NVCC_VENV)/ready ## assemble the specimens of the tables' instructions, and hold the tables to them
	$(GO) test ./gpu/internal/translate -run '^TestSemantics$$' -count 1 $(TESTFLAGS) -args -toolkit $(call quoted,$(abspath $(CUDA_HOME))/bin)

.PHONY: semantics-faults
semantics-faults: ## make each row of the tables of instructions wrong, and misread each form of operand: the specimens must show it
	$(GO) test ./gpu/internal/translate -run '^Test(Semantics|Misread)$$' -count 1 $(TESTFLAGS) -args -plant

# What the next three run on; ENGINES=sass runs on the machine code alone.
ENGINES ?= ptx sass
compiled = for engine in $(ENGINES); do LOCKSTEP_ENGINE=$$engine $(GO) test -count 1 -timeout 4h $(TESTFLAGS) $(1) || exit 1; done

# The tests that test-compiled-all runs, as go test's -run has it: one part of it after the other.
PART ?= .

.PHONY: test-compiled-all
test-compiled-all: ## all tests of ./gpu and ./gpu/classic on the shipped PTX and machine code, or PART='^TestShort$$' of them: an hour
	$(call compiled,./gpu ./gpu/classic -run '$(PART)')

.PHONY: test-compiled-goldens
test-compiled-goldens: ## GOLDEN_STEPS steps of every recording, in blocks of every size, on the shipped PTX and machine code
	$(call compiled,./gpu -run '^TestGoldens$$' -golden-steps $(GOLDEN_STEPS))
GOLDEN_STEPS := 4

.PHONY: test-compiled-faults
test-compiled-faults: ## plant every fault in the shipped PTX and machine code: all must be noticed
	$(call compiled,./gpu -run '^TestCompiledFaults$$')

.PHONY: mutants-classic
mutants-classic: build ## plant every fault of classic control, and read what the harness says
	$(BIN) mutants --only 'classic-*'

.PHONY: bench-classic
bench-classic: $(GYMNASIUM)/requirements/ready ## classic control on one core as multiples of Gymnasium's speed, in CPU time of one run
	$(GO) run ./cmd/internal/speed -python $(GYMNASIUM)/requirements/bin/python

# GOFLAGS and WITH_CUDA put the GPU into the library; it runs without one, too.
CUDA_PYTHON = GO=$(GO) GOFLAGS=-tags=cuda $(WITH_CUDA) $(PYTHON_VENV)/bin/pip

.PHONY: install-python-cuda
install-python-cuda: $(CUDA_LINK)/libcuda.a ## the Python package with the GPU in it, in build/python
	@[ -x $(PYTHON_VENV)/bin/pip ] || $(PYTHON) -m venv $(PYTHON_VENV)
	$(CUDA_PYTHON) install --quiet --disable-pip-version-check '.[test]'
	$(CUDA_PYTHON) install --quiet --disable-pip-version-check --force-reinstall --no-deps .

.PHONY: test-python-standin
test-python-standin: install-python-cuda ## the Python package's arrays on the GPU, on the stand-in driver
	@$(MAKE) --no-print-directory standin
	LD_LIBRARY_PATH=$(call quoted,$(abspath build/standin)) LOCKSTEP_REQUIRE_GPU=1 $(PYTHON_VENV)/bin/pytest $(PYTESTFLAGS) python/tests/test_device.py

.PHONY: mutation-library
mutation-library: $(CUDA_LINK)/libcuda.a ## mutants of the library that Python loads: by the Python package's tests and the stand-in driver
	@$(MAKE) --no-print-directory standin
	LOCKSTEP_PYTHON=$(PYTHON_VENV)/bin/python $(WITH_CUDA) $(GO) run ./parity/mutants/mutation --tags cuda --enter $(MUTATIONFLAGS) ./cmd/internal/native

.PHONY: wheel-cuda
wheel-cuda: $(CUDA_LINK)/libcuda.a ## a wheel with the GPU in it, in dist
	@[ -x $(PYTHON_VENV)/bin/pip ] || $(PYTHON) -m venv $(PYTHON_VENV)
	$(CUDA_PYTHON) wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

.PHONY: classic-ci
classic-ci: ## a short test-classic, for every change: the rest of what holds classic control is in `go test ./...`
	@$(MAKE) --no-print-directory test-classic CLASSIC_LIVE=2000

.PHONY: bench-streaming
bench-streaming: ## what streaming and keeping a run cost of a batched run, on an idle machine
	LOCKSTEP_STREAMING=1 $(GO) test ./cmd/internal/runs -run '^TestStreamingCost$$' -count 1 -v

.PHONY: bench-ray
bench-ray: ## the parallel efficiency of shards as tasks of Ray, on an idle machine; after make test-ray
	LOCKSTEP_RAY=1 $(PYTHON_VENV)/bin/pytest -s -m ray python/tests/test_shards.py -k efficiency

.PHONY: bench-python
bench-python: build ## what the Python package costs, as ratios of one run; wants what `make test-python` installs
	$(PYTHON_VENV)/bin/python python/bench.py $(BENCHFLAGS)

.PHONY: gpu-rehearsal
gpu-rehearsal: gpu-bundle ## the first minutes on the stand-in driver, briefly; what it writes is no evidence
	@$(MAKE) --no-print-directory standin
	rm -rf build/rehearsal && mkdir -p build/rehearsal
	LD_LIBRARY_PATH=$(call quoted,$(abspath build/standin)) LOCKSTEP_REHEARSE=1 LOCKSTEP_BENCH_ROUTES=2 LOCKSTEP_DEADLINE=$(REHEARSAL) \
		build/gpu-bundle/run build/rehearsal
	cat build/rehearsal/stand-in/device.txt
REHEARSAL := 180

.PHONY: test-policies
test-policies: ## all kinds of policies on 500 generated routes, sweeps and forks: batched and onnxruntime held to the reference, step by step
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	$(GO) test -count=1 -timeout 45m ./engines -run '^TestManyPolicies$$' -args -routes 500

.PHONY: bench-avx2
bench-avx2: build need-upstream $(VENV)/ready ## bench with AVX2 alone, in ONNX Runtime and the Python program, too (UPSTREAM=DIR)
	$(VENV)/bin/python scripts/avx2/mask.py build/avx2
	PYTHONPATH=build/avx2 ONNXRUNTIME_LIB="$$(echo $(call quoted,$(CURDIR))/build/avx2/onnxruntime/capi/libonnxruntime.so.*)" \
		$(BIN) bench --kernels avx2 --upstream $(UPSTREAM) --python $(VENV)/bin/python $(BENCHFLAGS)

.PHONY: test-torch
test-torch: ## the Python package beside PyTorch: training, resume, export, the order of imports
	@[ -x $(PYTHON_VENV)/bin/pip ] || $(PYTHON) -m venv $(PYTHON_VENV)
	GO=$(GO) $(PYTHON_VENV)/bin/pip install --quiet --disable-pip-version-check '.[test,torch]'
	$(PYTHON_VENV)/bin/pytest python/tests/test_examples.py python/tests/test_process.py

.PHONY: bench-memory
bench-memory: build ## how much memory a run over 5,000 generated routes takes at most
	@mkdir -p build
	$(BIN) generate --num_routes 5000 --seed 0 --out build/routes-5000
	$(PYTHON) -c 'import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); \
		print("at most", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, "MB resident")' \
		$(BIN) rollout --engine batched --data_path build/routes-5000 --num_segs 5000
