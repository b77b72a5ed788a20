# Everything that a fresh machine needs is made on the way: `make demo`, `make test`. A repeat does only what changed.
# `make help` lists the targets. Steps of tools/make build and install what they need: `make .stamps/core`, or
# `make .stamps/NAME` for a plugin of plugins.toml. `python3 tools/make --help` lists the steps.
# PYTHON=python3.12 chooses the interpreter of .venv, TORCH its torch; PYTEST_ARGS and JOBS may be set too.

PYTHON ?= python3
JOBS ?= $(shell nproc)
export PYTEST_ARGS ?= -n 2 --dist worksteal
GRAPHS ?= 20000
MODELS ?= 300
INPUTS ?= 1000000
SELECTION ?= --slow -m slow
ifeq ($(origin CC),default)
CC := clang-16
CXX := clang++-16
endif
export CC CXX
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
# A second build of the same sources, such as that of a new clone, finds its objects in the cache of ccache.
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= true

PY := .venv/bin/python
PYTEST := $(PY) -m pytest -c pyproject.toml
CTEST := ctest --output-on-failure --no-tests=error --test-dir
STEPS := python3 tools/make
RUN_KERNELS := $(PYTHON) plugins/edgecore-xnnpack/native/tests/run_kernels.py
ARM64 := EDGECORE_KERNELS_ARM64=$(CURDIR)/build/linux-arm64/runtime_cpp/kernels/edgecore_kernels_serve
PLATFORMS := EDGECORE_XNNPACK_PLATFORMS=$(CURDIR)/build/platforms
# The processes of pytest share the cores: threads of PyTorch beside them cost a quarter of the time.
PYTEST_ENVIRONMENT := EDGECORE_KERNELS_BUILD=$(CURDIR)/build/test/runtime_cpp/kernels \
	EDGECORE_XNNPACK_BUILD=$(CURDIR)/build/test-xnnpack OMP_NUM_THREADS=1

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile) FORCE
.NOTPARALLEL:

install: .stamps/core .stamps/xnnpack  ## edgecore and edgecore-xnnpack in .venv

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1 /p' Makefile | while read name text; do printf '%-17s %s\n' "$$name" "$$text"; done

demo: .stamps/demo  ## train and compile two networks, run them, print a table
	$(PY) examples/demo.py

test: lint ctest pytest  ## formatters, linters, types, C++ tests and Python tests
	@echo "make test: lint, C++ tests and Python tests passed"

test-all: .stamps/test-all  ## everything that is tested, in parts, for hours; goes on where it was stopped

lint: install .stamps/lint .stamps/clang-tidy  ## formatters, linters, types
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	tools/clang_format.sh --check

format: .stamps/lint .stamps/test-system  ## apply formatters, and fixes of linters
	$(PY) -m ruff check --fix
	$(PY) -m ruff format
	tools/clang_format.sh

ctest: .stamps/native-tests  ## C++ tests
	$(CTEST) build/test -j $(JOBS)
	for name in $$($(STEPS) --with cpp_tests); do $(CTEST) build/test-$$name -j $(JOBS) || exit 1; done
	$(RUN_KERNELS) build/test-xnnpack

pytest test-slow test-torch-newest: .stamps/test .stamps/plugins .stamps/native-tests
pytest:  ## Python tests
	$(PYTEST_ENVIRONMENT) $(PYTEST) $(PYTEST_ARGS)
test-slow: .stamps/openvino-2025 .stamps/arm64-xnnpack  ## tests that build programs, emulate Arm or take long
	$(PYTEST_ENVIRONMENT) $(ARM64) $(PLATFORMS) EDGECORE_OPENVINO_2025=$(CURDIR)/build/openvino-2025 \
		$(PYTEST) $(PYTEST_ARGS) $(SELECTION)
test-torch-newest: .stamps/torch-newest  ## the Python tests on the newest torch, or on NEWEST="torch==X torchvision==Y"
	$(PYTEST_ENVIRONMENT) build/torch-newest/bin/python -m pytest -c pyproject.toml $(PYTEST_ARGS)

test-kernels: .stamps/native-tests .stamps/upstream-tests  ## XNNPACK's kernels on all shapes, and all of its own tests
	$(RUN_KERNELS) build/test-xnnpack --full --row
	$(CTEST) build/xnnpack-upstream -j $(JOBS)

test-emulated: install .stamps/test .stamps/emulated  ## XNNPACK's kernels for other processors, compiled as plain C
	$(CTEST) build/test-emulated
	$(RUN_KERNELS) build/test-emulated
	EDGECORE_XNNPACK_EMULATED=$(CURDIR)/build/test-emulated $(PYTEST) plugins/edgecore-xnnpack/tests/native/test_emulated.py

# Each processor runs all tests of the kernels. The first use of zig compiles its C++ library, for minutes.
test-platforms: install .stamps/test .stamps/zig .stamps/arm64-xnnpack .stamps/armv7-xnnpack  ## on emulated Arms
	$(PLATFORMS) $(PYTEST) $(PYTEST_ARGS) --full plugins/edgecore-xnnpack/tests/native/test_platforms.py \
		tests/interop/test_zoo_arm64.py tests/test_layers.py
	for processor in cortex-a53 neoverse-n1 max; do \
		$(ARM64) EDGECORE_KERNELS_PROCESSOR=$$processor $(PYTEST) $(PYTEST_ARGS) tests/kernels || exit 1; \
	done
	$(ARM64) $(PYTEST) $(PYTEST_ARGS) --full tests/test_layers.py tests/kernels/test_emulated.py tests/native/test_arm64.py

test-ray: install .stamps/test .stamps/ray  ## install Ray; sweeps on a cluster, whose nodes are killed in between
	$(PYTEST) --full tests/sweeps/pools/test_ray_pool.py

test-conformance: .stamps/conformance  ## the whole conformance suite on each backend; goes on where it was stopped

fuzz: .stamps/fuzzers  ## a short run of each fuzzer of files, and the tests of the core, under address sanitizer
	$(CTEST) build/fuzz -R 'edgecore_core_test|fuzz'
sanitize: .stamps/addresses .stamps/threads  ## delegates and threads under sanitizers: tests and fuzzers of blobs
	$(CTEST) build/threads -R '^host$$'
	$(CTEST) build/xnnpack-thread
	for name in $$($(STEPS) --with cpp_tests); do $(CTEST) build/$$name-address || exit 1; done

vulkan-threads: .stamps/vulkan-thread  ## the C++ tests of edgecore-vulkan under the thread sanitizer
	$(CTEST) build/vulkan-thread

fuzz-long: install .stamps/fuzzers .stamps/addresses  ## the fuzzers for INPUTS=1000000 inputs, with coverage; goes on where it was stopped
	mkdir -p build/fuzz-long/seeds
	build/fuzz/runtime_cpp/fuzz/edgecore_make_seeds build/fuzz-long/seeds
	cd tests && ../$(PY) -m fuzz.seeds ../build/fuzz-long/seeds && ../$(PY) -m fuzz.long --inputs $(INPUTS) --jobs $(JOBS)

fuzz-graphs: install .stamps/test  ## GRAPHS=20000 random graphs, MODELS=300 models; goes on where it was stopped
	cd tests && ../$(PY) -m fuzz.run --graphs $(GRAPHS) --progress ../build/fuzz-graphs
	cd tests && ../$(PY) -m fuzz.models.run --models $(MODELS) --progress ../build/fuzz-models

bench: install .stamps/test  ## speed and memory beside executorch
	$(PY) benchmarks/check.py

bench-processor: install .stamps/test .stamps/peers  ## this processor, beside executorch, ONNX Runtime and OpenVINO
	$(PY) benchmarks/processor.py

# On one thread, these small networks are trained in seconds.
firmware: install .stamps/test-system .stamps/sklearn .stamps/ethosu  ## examples of microcontrollers in an emulator
	OMP_NUM_THREADS=1 $(PY) examples/firmware/firmware.py

docs: install .stamps/docs  ## the documentation as a site in build/docs/html; warnings are errors
	rm -rf build/docs/doxygen build/docs/html && mkdir -p build/docs/doxygen
	doxygen docs/Doxyfile
	$(PY) -m sphinx --fail-on-warning --keep-going --nitpicky --quiet -b html -d build/docs/doctrees docs build/docs/html

shaders: .stamps/test-system  ## the SPIR-V of edgecore-vulkan, after a change of a shader
	$(PYTHON) plugins/edgecore-vulkan/native/shaders/build.py

wheels: install .stamps/publish .stamps/test-system  ## publishable wheels in dist/publish, for all platforms of plugins.toml
	rm -rf dist/publish && $(PY) tools/cross/wheels.py

test-wheels: wheels .stamps/test  ## these wheels for Arm, installed and run by an emulated Python
	EDGECORE_ARM_WHEELS=$(CURDIR)/dist/publish $(PYTEST) --full tests/native/test_arm_wheels.py

release: install .stamps/test .stamps/release  ## all that a release publishes, checked and installed: docs/releases.md
	$(PY) tools/release

clean:  ## remove all that was built
	rm -rf build dist .stamps plugins/*/build

.stamps/%: FORCE
	@$(STEPS) $*
