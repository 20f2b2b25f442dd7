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
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/lockstep
	@mkdir -p build
	$(GO) build -o $(BIN) ./cmd/lockstep

# Without ONNX Runtime everything works but the engine onnxruntime; it says so itself.
.PHONY: onnxruntime
onnxruntime: ## fetch ONNX Runtime's library into the user's cache folder
	@$(GO) run ./onnxruntime/internal/fetch

.PHONY: run
run: build ## roll routes out on every engine that is here, compare the bits, draw the drives
	$(BIN) demo --report build/lockstep.html

.PHONY: test
test: ## run all tests, and count what was not run for want of something
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	-@$(MAKE) --no-print-directory $(VENV)/ready >/dev/null
	@mkdir -p build
	@if [ -z "$$LOCKSTEP_PYTHON" ] && [ -f $(VENV)/ready ]; then export LOCKSTEP_PYTHON=$(abspath $(VENV)/bin/python); fi; \
	$(GOTESTSUM) --format pkgname --hide-summary skipped --jsonfile build/test.json -- $(TESTFLAGS) ./...; status=$$?; \
	grep -o '"Output":".*not run for want of [a-z]*: ' build/test.json | sed 's/.*not run for want of \([a-z]*\): /\1/' | sort | uniq -c | while read -r n what; do \
		echo "$$n tests were not run for want of $$what: \`lockstep doctor\` says what is missing"; \
	done; \
	exit $$status

# The revision that the change is to be merged into; without one every check runs.
BASE      ?=
GATEFLAGS ?=

.PHONY: mutants
mutants: build ## plant every fault, and write what was noticed into parity/mutants/README.md; ended, it goes on where it was
	$(BIN) mutants --markdown --out build/mutants.json > build/mutants.md
	{ sed '/^|/,$$d' parity/mutants/README.md; cat build/mutants.md; } > build/README.md && mv build/README.md parity/mutants/README.md
	sed "s/^[0-9]* of [0-9]* faults caught.*/$$(tail -n 1 build/mutants.md)/" README.md > build/README.md && mv build/README.md README.md

.PHONY: mutants-sample
mutants-sample: build ## plant one fault in each engine, and some of each kind that only tests see
	$(BIN) mutants --only '*-digitize-side'
	for faults in golden-provenance-lost 'vectors-first-*' 'compare-first-*' trace-checksum cache-name-only engines-identity kernels-epsilon route-digits \
		classic-reference-pow-square classic-batched-argmax; do \
		$(BIN) mutants --only "$$faults" || exit 1; done

.PHONY: gate
gate: build ## run what a change must pass before it is merged (BASE=REV: what differs from it decides)
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	-@$(MAKE) --no-print-directory $(VENV)/ready >/dev/null
	@if [ -z "$$LOCKSTEP_PYTHON" ] && [ -f $(VENV)/ready ]; then export LOCKSTEP_PYTHON=$(abspath $(VENV)/bin/python); fi; \
	$(BIN) gate $(if $(BASE),--base $(BASE)) $(GATEFLAGS)

ONE_GOLDEN := LOCKSTEP_ONLY=g00002/pid $(GO) test -run '^TestTrajectory$$/^default$$/^ort1.30-avx2-expU-sinfma-csv2$$/^reference$$'

.PHONY: test-noasm
test-noasm: ## hold the plain Go kernels, without any assembly, to Python
	$(GO) test -tags noasm ./reference/... -run 'Python'
	$(ONE_GOLDEN) -tags noasm ./parity

.PHONY: test-avx512
test-avx512: ## the AVX-512 kernels, on an emulated CPU where this one has none
	@scripts/avx512/test.sh

.PHONY: test-nocgo
test-nocgo: ## the program without cgo; a recording is compared
	CGO_ENABLED=0 $(GO) build ./...
	CGO_ENABLED=0 $(ONE_GOLDEN) ./parity

.PHONY: test-fused
test-fused: ## the same with a compiler that may fuse products into sums
	GOAMD64=v3 $(GO) test ./generate
	GOAMD64=v3 $(GO) test . ./internal/... ./golden/... ./reference ./batched -run 'Python|Plain|Trajectory'
	GOAMD64=v3 $(GO) test ./reference/classic ./batched/classic
	GOAMD64=v3 $(GO) test ./parity -run '^TestTrajectory$$/.*/.*/^(reference|batched)$$'

.PHONY: test-race
test-race: ## the concurrent packages under the race detector; what is skipped has one thread, or is slow and has a twin
	$(GO) test -race -short ./onnxruntime ./internal/routecache -skip 'StagesReference|Graph|ExpFused|Vectors|Python|Librar'
	$(GO) test -race ./parity/trace -skip Python
	$(GO) test -race -short ./cmd/lockstep -skip 'Gate|Keep|Stats|StandardOutput|BadFiles'
	$(GO) test -race ./gpu -run 'Turns|Recovery|Watchdog|Cancel|Break|Closed'

# CUDA's compiler and header, from Python's package index. CUDA_HOME names another.
NVCC_VENV := build/cuda
CUDA_HOME ?= $(firstword $(wildcard $(NVCC_VENV)/lib/python3*/site-packages/nvidia/cu13))
CUDA_LINK := build/cuda-link
# gorgonia.org/cu names the library only; what it is linked with and which header it sees comes from here.
WITH_CUDA = CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -I$(abspath gpu/driver/cuda/include) -I$(abspath $(CUDA_HOME)/include)" CGO_LDFLAGS="-L$(abspath $(CUDA_LINK))"

$(NVCC_VENV)/ready: gpu/module/requirements.txt
	rm -rf $(NVCC_VENV)
	$(PYTHON) -m venv $(NVCC_VENV)
	$(NVCC_VENV)/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r gpu/module/requirements.txt
	touch $@

# The recipes ask for CUDA_HOME again, since the package may just have come.
$(CUDA_LINK)/libcuda.a: gpu/driver/cuda/include/cuda.h gpu/driver/cuda/internal/stub/main.go $(NVCC_VENV)/ready
	@mkdir -p $(CUDA_LINK)
	@$(MAKE) --no-print-directory cuda-link

.PHONY: cuda-link
cuda-link:
	@if [ ! -f "$(CUDA_HOME)/include/cuda.h" ]; then echo "no cuda.h in $(CUDA_HOME)/include: set CUDA_HOME to a toolkit, or leave it unset and the header is fetched"; exit 2; fi
	echo '#include <cuda.h>' | $(CC) -E -P -Igpu/driver/cuda/include -I$(CUDA_HOME)/include -x c - | $(GO) run ./gpu/driver/cuda/internal/stub -kind loader > $(CUDA_LINK)/loader.c
	$(CC) -O2 -fPIC -Igpu/driver/cuda/include -I$(CUDA_HOME)/include -c $(CUDA_LINK)/loader.c -o $(CUDA_LINK)/loader.o
	rm -f $(CUDA_LINK)/libcuda.a && ar rcs $(CUDA_LINK)/libcuda.a $(CUDA_LINK)/loader.o

.PHONY: build-cuda
build-cuda: $(CUDA_LINK)/libcuda.a ## build bin/lockstep with the GPU in it; it runs without one, too
	$(WITH_CUDA) $(GO) build -tags cuda -o $(BIN) ./cmd/lockstep

.PHONY: kernels
kernels: $(NVCC_VENV)/ready ## compile the CUDA kernels into gpu/module and gpu/classic/module
	@$(MAKE) --no-print-directory nvcc
	@$(MAKE) --no-print-directory nvcc-classic

.PHONY: kernels-check
kernels-check: $(NVCC_VENV)/ready ## compile them and compare with what is committed
	@$(MAKE) --no-print-directory nvcc NVCC_FLAGS=-check
	@$(MAKE) --no-print-directory nvcc-classic CHECK=1

.PHONY: nvcc
nvcc:
	$(GO) run ./gpu/module/build -nvcc $(CUDA_HOME)/bin/nvcc $(NVCC_FLAGS)

# Cases of each property: `go test ./gpu` tries them all on the emulated device.
CHECKS ?= 25

.PHONY: test-cuda-standin
test-cuda-standin: $(CUDA_LINK)/libcuda.a ## the program with the GPU in it, on a stand-in driver that runs the kernels on the CPU
	@$(MAKE) --no-print-directory standin
	$(WITH_CUDA) $(GO) vet -tags cuda ./gpu/... ./cmd/...
	LD_LIBRARY_PATH=$(abspath build/standin) LOCKSTEP_REQUIRE_GPU=1 $(WITH_CUDA) $(GO) test -tags cuda $(TESTFLAGS) ./gpu/driver/cuda
	LD_LIBRARY_PATH=$(abspath build/standin) LOCKSTEP_REQUIRE_GPU=1 $(WITH_CUDA) $(GO) test -tags cuda $(TESTFLAGS) ./gpu -rapid.checks $(CHECKS)

.PHONY: standin
standin:
	gpu/standin/build.sh $(CUDA_HOME)/include build/standin

.PHONY: gpu-bundle
gpu-bundle: $(CUDA_LINK)/libcuda.a ## make build/gpu-bundle, which runs gpu-test and gpu-bench on a machine with a driver and no Go
	$(WITH_CUDA) gpu/hardware/bundle.sh build/gpu-bundle

.PHONY: gpu-test
gpu-test: gpu-bundle ## on a GPU: goldens, properties and compute-sanitizer; writes gpu/hardware/<GPU>.json
	build/gpu-bundle/run tests gpu/hardware
	for tool in memcheck racecheck initcheck synccheck; do build/gpu-bundle/run sanitize $$tool gpu/hardware || exit 1; done

.PHONY: gpu-bench
gpu-bench: gpu-bundle ## on a GPU: time of 792 and 5,000 routes, PyTorch beside it; adds to gpu/hardware/<GPU>.json
	build/gpu-bundle/run bench gpu/hardware

.PHONY: gpu-profile
gpu-profile: gpu-bundle ## on a GPU: what ncu sees in one launch; adds to gpu/hardware
	build/gpu-bundle/run profile gpu/hardware

.PHONY: gate-gpu
gate-gpu: $(CUDA_LINK)/libcuda.a ## the gate on a machine with a GPU, where nothing may be missing
	$(WITH_CUDA) GOFLAGS=-tags=cuda LOCKSTEP_REQUIRE_GPU=1 $(MAKE) --no-print-directory gate GATEFLAGS="--require-hardware $(GATEFLAGS)"

# Native fuzz targets, and how many executions of each fuzz-ci runs. Where a rollout is one, a second has some 20.
FUZZ_TARGETS := .:FuzzReadRoute:20000 ./internal/pandas:FuzzParseFloat:20000 ./internal/npz:FuzzRead:20000 ./internal/npz:FuzzReadArray:20000 \
	./internal/onnx:FuzzParse:20000 ./internal/routecache:FuzzParse:20000 \
	./fuzz:FuzzTokenizer:300 ./fuzz:FuzzStep:100 ./fuzz:FuzzDraws:100 ./fuzz:FuzzBatch:100 ./fuzz:FuzzAgreement:20 \
	./fuzz:FuzzShortcuts:20 ./fuzz:FuzzTeacher:100 ./fuzz:FuzzLongRoutes:20 ./fuzz:FuzzCalls:5 ./fuzz:FuzzStepping:40 ./fuzz:FuzzPandas:10000 ./fuzz:FuzzCSV:1000 \
	./fuzz:FuzzClassic:100 ./fuzz:FuzzReadRoute:5000 ./fuzz:FuzzReadModel:10000 ./fuzz:FuzzReadNPZ:10000 ./fuzz:FuzzReadGolden:5000 ./fuzz:FuzzReadCache:1500 ./fuzz:FuzzReadTrace:10000
FUZZTIME := 5m

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME each
	@for t in $(FUZZ_TARGETS); do p=$${t%%:*}; n=$${t#*:}; \
		$(GO) test $$p -run '^$$' -fuzz "^$${n%:*}\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x || exit 1; done

.PHONY: fuzz-ci
fuzz-ci: ## run every fuzz target for a fixed number of executions
	@for t in $(FUZZ_TARGETS); do p=$${t%%:*}; n=$${t#*:}; \
		$(GO) test $$p -run '^$$' -fuzz "^$${n%:*}\$$" -fuzztime $${t##*:}x -fuzzminimizetime 10x || exit 1; done

.PHONY: bench
bench: build ## ratios measured in one run; with UPSTREAM=DIR also against Python
	@if [ -n "$(UPSTREAM)" ]; then $(MAKE) --no-print-directory $(VENV)/ready; fi
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	$(BIN) bench $(if $(UPSTREAM),--upstream $(UPSTREAM) --python $(VENV)/bin/python) $(BENCHFLAGS)
	$(GO) test -run '^$$' -bench . -benchtime 3x ./internal/routecache
	LOCKSTEP_UPSTREAM=$(abspath $(UPSTREAM)) LOCKSTEP_PYTHON=$(if $(UPSTREAM),$(abspath $(VENV)/bin/python)) \
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
generate: ## generate the assembly again
	for package in internal/f32 batched/classic; do (cd $$package && $(GO) generate doc.go) || exit 1; done

.PHONY: generate-check
generate-check: ## check that the committed assembly is what its generator makes
	sh scripts/generate-check.sh internal/f32
	sh scripts/generate-check.sh batched/classic

.PHONY: lint
lint: ## gofmt, vet, staticcheck, shell syntax
	@for f in .ci/run $$(git ls-files '*.sh'); do bash -n $$f || exit 1; done
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

PYTHON_VENV := build/python

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

.PHONY: test-ray
test-ray: ## shards as tasks of Ray, on a cluster of three nodes on this machine
	@[ -x $(PYTHON_VENV)/bin/pip ] || $(PYTHON) -m venv $(PYTHON_VENV)
	GO=$(GO) $(PYTHON_VENV)/bin/pip install --quiet --disable-pip-version-check '.[test,ray]'
	$(PYTHON_VENV)/bin/pytest -m ray python/tests/test_shards.py

.PHONY: test-kills
test-kills: ## a kept run of 300 rollouts, killed a hundred times
	LOCKSTEP_KILLS=100 $(GO) test ./cmd/lockstep -run '^TestKill$$' -v -timeout 60m

.PHONY: wheel
wheel: ## a wheel for many Linuxes, glibc 2.28 and newer, in dist
	LOCKSTEP_PORTABLE=1 GO=$(GO) $(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

.PHONY: vectors-check
vectors-check: $(VENV)/ready ## ask NumPy, pandas, the C library and ONNX Runtime for the results in golden/vectors
	$(VENV)/bin/pip install --quiet onnx
	$(VENV)/bin/python golden/vectors/check.py

# Gymnasium, for the classic control environments: see docs/classic.md.
GYMNASIUM := build/gymnasium

$(GYMNASIUM)/%/ready: golden/classic/%.txt
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r $<
	touch $@

.PHONY: test-classic
test-classic: $(GYMNASIUM)/requirements/ready ## hold classic control to the Gymnasium that pip installs, CLASSIC_LIVE steps of each environment
	LOCKSTEP_GYMNASIUM=$(abspath $(GYMNASIUM)/requirements/bin/python) LOCKSTEP_CLASSIC_LIVE=$(CLASSIC_LIVE) $(GO) test -count 1 -timeout 120m -v -run '^TestClassicLive$$' ./fuzz
CLASSIC_LIVE := 100000

.PHONY: test-classic-long
test-classic-long: ## hold the engines of classic control to one another for CLASSIC_STEPS steps
	LOCKSTEP_CLASSIC_STEPS=$(CLASSIC_STEPS) $(GO) test -count 1 -timeout 120m -v -run '^TestClassicLong$$' ./fuzz
CLASSIC_STEPS := 1e8

.PHONY: golden-classic
golden-classic: $(GYMNASIUM)/requirements/ready $(GYMNASIUM)/requirements-numpy1/ready ## record the goldens of classic control again
	$(GO) run ./golden/classic/record -python $(GYMNASIUM)/requirements/bin/python -python1 $(GYMNASIUM)/requirements-numpy1/bin/python

.PHONY: golden-policies
golden-policies: need-upstream $(VENV)/ready ## record exported controllers in the Python program again (UPSTREAM=DIR)
	@mkdir -p build/controllers
	LOCKSTEP_EXPORT=$(abspath build/controllers) $(GO) test -count=1 ./golden/policies -run Export
	$(VENV)/bin/python golden/policies/record.py --upstream $(UPSTREAM) --model $(ASSETS)/tinyphysics.onnx --routes $(ASSETS)/routes --controllers build/controllers --out golden/policies/recordings.npz
	@rm -rf build/own-route && mkdir -p build/own-route && cp defaults/routes/g00002.csv build/own-route
	$(VENV)/bin/python golden/policies/record.py --upstream $(UPSTREAM) --model defaults/tinyphysics-default.onnx --routes build/own-route --controllers build/controllers --out golden/policies/default.npz
	$(VENV)/bin/python scripts/avx2/mask.py build/avx2
	PYTHONPATH=build/avx2 $(VENV)/bin/python golden/policies/record.py --upstream $(UPSTREAM) --model defaults/tinyphysics-default.onnx --routes build/own-route --controllers build/controllers --out golden/policies/default-avx2.npz

CLASSIC_KERNELS := gpu/kernels/classic
CLASSIC_MODULE := gpu/classic/module
# Compiles the kernels of classic control into build/classic, and copies what is made, or with CHECK=1 compares it.
.PHONY: nvcc-classic
nvcc-classic:
	rm -rf build/classic && mkdir -p build/classic
	cd $(CLASSIC_KERNELS) && for t in ptx:compute_80 cubin:sm_90; do \
		$(abspath $(CUDA_HOME))/bin/nvcc -std=c++17 -O3 -fmad=false -prec-div=true -prec-sqrt=true -ftz=false -$${t%%:*} -arch=$${t#*:} -Xptxas -v \
			-o $(abspath build/classic)/classic.$${t%%:*} classic.cu 2>> $(abspath build/classic)/log || exit 1; done
	awk '/entry function/ { name = $$7 } /Function properties for lockstep/ { getline; spill = $$0 } /Used/ { sub(/ptxas info *: */, ""); print name ": " $$0 "; " spill }' build/classic/log | tr -s ' ' > build/classic/report.txt
	cat $(sort $(wildcard $(CLASSIC_KERNELS)/*.cu $(CLASSIC_KERNELS)/*.cuh $(CLASSIC_KERNELS)/*.h)) | sha256sum | cut -d ' ' -f 1 > build/classic/sources.sha256
	cd build/classic && for f in ptx cubin; do \
		if [ -n "$(CHECK)" ]; then gzip -dc ../../$(CLASSIC_MODULE)/classic.$$f.gz | cmp - classic.$$f || exit 1; else gzip -9nc classic.$$f > ../../$(CLASSIC_MODULE)/classic.$$f.gz; fi; done
	for f in report.txt sources.sha256; do if [ -n "$(CHECK)" ]; then cmp build/classic/$$f $(CLASSIC_MODULE)/$$f || exit 1; else cp build/classic/$$f $(CLASSIC_MODULE)/; fi; done

.PHONY: mutants-classic
mutants-classic: build ## plant every fault of classic control, and read what the harness says
	$(BIN) mutants --only 'classic-*'

.PHONY: bench-classic
bench-classic: $(GYMNASIUM)/requirements/ready ## classic control on one core as multiples of Gymnasium's speed, in CPU time of one run
	$(GO) run ./golden/classic/speed -python $(GYMNASIUM)/requirements/bin/python

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
	LD_LIBRARY_PATH=$(abspath build/standin) LOCKSTEP_REQUIRE_GPU=1 $(PYTHON_VENV)/bin/pytest $(PYTESTFLAGS) python/tests/test_device.py

.PHONY: wheel-cuda
wheel-cuda: $(CUDA_LINK)/libcuda.a ## a wheel with the GPU in it, in dist
	@[ -x $(PYTHON_VENV)/bin/pip ] || $(PYTHON) -m venv $(PYTHON_VENV)
	$(CUDA_PYTHON) wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

.PHONY: classic-ci
classic-ci: ## a short test-classic, for every change: the rest of what holds classic control is in `go test ./...`
	@$(MAKE) --no-print-directory test-classic CLASSIC_LIVE=2000

.PHONY: bench-streaming
bench-streaming: ## what streaming and keeping a run cost of a batched run, on an idle machine
	LOCKSTEP_STREAMING=1 $(GO) test ./runs -run '^TestStreamingCost$$' -count 1 -v

.PHONY: bench-ray
bench-ray: ## the parallel efficiency of shards as tasks of Ray, on an idle machine; after make test-ray
	LOCKSTEP_RAY=1 $(PYTHON_VENV)/bin/pytest -s -m ray python/tests/test_shards.py -k efficiency

.PHONY: bench-python
bench-python: build ## what the Python package costs, as ratios of one run; wants what `make test-python` installs
	$(PYTHON_VENV)/bin/python python/bench.py $(BENCHFLAGS)

.PHONY: gpu-rehearsal
gpu-rehearsal: gpu-bundle ## every verb of the bundle on the stand-in driver, briefly; what it writes is no evidence
	@$(MAKE) --no-print-directory standin
	rm -rf build/rehearsal && mkdir -p build/rehearsal
	for verb in 'sanitize memcheck' profile bench tests; do \
		LD_LIBRARY_PATH=$(abspath build/standin) LOCKSTEP_REHEARSE=1 LOCKSTEP_BENCH_ROUTES=2 LOCKSTEP_DEADLINE=$(REHEARSAL) \
		build/gpu-bundle/run $$verb build/rehearsal || exit 1; done
	cat build/rehearsal/stand-in.json
REHEARSAL := 90s

.PHONY: test-policies
test-policies: ## all kinds of policies on 500 generated routes, sweeps and forks: batched and onnxruntime held to the reference, step by step
	-@$(MAKE) --no-print-directory onnxruntime >/dev/null
	$(GO) test -count=1 -timeout 45m ./engines -run '^TestManyPolicies$$' -args -routes 500

.PHONY: bench-avx2
bench-avx2: build need-upstream $(VENV)/ready ## bench with AVX2 alone, in ONNX Runtime and the Python program, too (UPSTREAM=DIR)
	$(VENV)/bin/python scripts/avx2/mask.py build/avx2
	PYTHONPATH=build/avx2 ONNXRUNTIME_LIB=$$(echo $(CURDIR)/build/avx2/onnxruntime/capi/libonnxruntime.so.*) \
		$(BIN) bench --kernels avx2 --upstream $(UPSTREAM) --python $(VENV)/bin/python $(BENCHFLAGS)

.PHONY: test-torch
test-torch: ## the Python package beside PyTorch: training, resume, export, the order of imports
	@[ -x $(PYTHON_VENV)/bin/pip ] || $(PYTHON) -m venv $(PYTHON_VENV)
	GO=$(GO) $(PYTHON_VENV)/bin/pip install --quiet --disable-pip-version-check '.[test,torch]'
	$(PYTHON_VENV)/bin/pytest python/tests/test_examples.py python/tests/test_process.py

.PHONY: bench-memory
bench-memory: build ## how much memory a run over 5,000 generated routes takes at most
	@mkdir -p build
	$(BIN) generate --num_routes 5000 --out build/routes-5000
	$(PYTHON) -c 'import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); \
		print("at most", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, "MB resident")' \
		$(BIN) rollout --engine batched --data_path build/routes-5000 --num_segs 5000
