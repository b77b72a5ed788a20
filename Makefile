# Everything that a fresh machine needs is made on the way: `make demo`, `make test`. A repeat does only what changed.
#
#   make demo    train and compile two networks, run them, print a table
#   make test    lint, C++ tests, Python tests
#   make test-all  everything that is tested, for hours: the targets below too, and what `make test` leaves out
#   make test-kernels  every kernel of XNNPACK that this processor can run, on all shapes, and XNNPACK's own tests of them
#   make test-emulated  XNNPACK's kernels for processors that this one is not, compiled as plain C
#   make test-platforms  XNNPACK, its delegate, its conformance, files of networks, the portable kernels and static
#                programs on emulated Arm processors
#   make test-ray  sweeps on a Ray cluster of three nodes on this machine, which are killed in between; installs Ray
#   make fuzz    every parser of the core under sanitizers: its tests, and a short run of each fuzzer; threads for races
#   make vulkan-threads  the C++ tests of edgecore-vulkan under the thread sanitizer
#   make fuzz-long INPUTS=1000000    corrupted files and blobs, with coverage; goes on where it was stopped
#   make fuzz-graphs GRAPHS=20000 MODELS=300    random small graphs, and models with state and writes, against eager;
#                goes on where it was stopped
#   make bench   the figures beside executorch
#   make bench-processor   a table of this processor, beside executorch, ONNX Runtime and OpenVINO
#   make firmware  the examples of microcontrollers: builds them, runs them in an emulator, prints a table
#   make docs    the documentation as a site in build/docs/html; warnings are errors
#   make lint    formatters, linters, types
#   make shaders  the SPIR-V of edgecore-vulkan, after a change of a shader
#   make wheels  publishable wheels in dist/publish, for x86-64 and 64-bit Arm, there for musl too
#   make test-wheels  these wheels for Arm, installed and run by an emulated Python
#
# PYTHON=python3.12 chooses the interpreter of .venv; PYTEST_ARGS, JOBS and TORCH may be set too.

PYTHON ?= python3
JOBS ?= $(shell nproc)
TORCH ?= torch==2.13.0
PYTEST_ARGS ?= -n 2 --dist worksteal
GRAPHS ?= 20000
MODELS ?= 300
INPUTS ?= 1000000
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
PIP := $(PY) -m pip --disable-pip-version-check
DONE := .stamps
ARM64_KERNELS := $(CURDIR)/build/linux-arm64/runtime_cpp/kernels/edgecore_kernels_serve
RUN_KERNELS := plugins/edgecore-xnnpack/native/tests/run_kernels.py build/test-xnnpack
SAY := @printf '\033[1m==> %s\033[0m\n'

core_native := $(shell find runtime_cpp cmake CMakeLists.txt pyproject.toml -type f -not -path '*/corpus/*' 2>/dev/null)
core_python := $(shell find src/edgecore -type f -not -name '*.pyc')
core_headers := $(addprefix runtime_cpp/include/edgecore/,abi.h backend.h kernel.h) $(wildcard cmake/*)
vulkan_layer := $(shell find runtime_cpp/vulkan -type f -not -name '*.pyc')
schemas := $(shell find src/edgecore/format/schema plugins/edgecore-xnnpack/src -name '*.fbs')
xnnpack_native := $(shell find plugins/edgecore-xnnpack/native -type f -not -path '*/corpus/*' -not -name '*.pyc')
vulkan_native := $(shell find plugins/edgecore-vulkan/native -type f -not -name '*.pyc')
vgf_native := $(shell find plugins/edgecore-vgf/native -type f -not -name '*.pyc')
ethosu_native := $(shell find plugins/edgecore-ethosu/native -type f -not -path '*/corpus/*' -not -name '*.pyc')
qnn_native := $(shell find plugins/edgecore-qnn/native plugins/edgecore-qnn/src/edgecore_qnn/schema -type f -not -name '*.pyc')
coreml_native := $(shell find plugins/edgecore-coreml/native -type f -not -name '*.pyc')
llm_native := $(shell find plugins/edgecore-llm/native -type f -not -name '*.pyc')
xnnpack_sources := $(shell find plugins/edgecore-xnnpack -type f -not -path '*/tests/*' -not -path '*/build/*' -not -path '*/corpus/*' -not -name '*.pyc')
openvino_sources := $(shell find plugins/edgecore-openvino -type f -not -path '*/tests/*' -not -path '*/build/*' -not -name '*.pyc')
vulkan_sources := $(shell find plugins/edgecore-vulkan -type f -not -path '*/tests/*' -not -path '*/build/*' -not -name '*.pyc' -not -name '*_test.cpp')
ethosu_sources := $(shell find plugins/edgecore-ethosu -type f -not -path '*/tests/*' -not -path '*/build/*' -not -path '*/corpus/*' -not -name '*_test.cpp' -not -name '*.pyc')
coreml_sources := $(shell find plugins/edgecore-coreml -type f -not -path '*/tests/*' -not -path '*/build/*' -not -name '*.pyc')
vgf_sources := $(shell find plugins/edgecore-vgf -type f -not -path '*/tests/*' -not -path '*/build/*' -not -name '*.pyc')
qnn_sources := $(shell find plugins/edgecore-qnn -type f -not -path '*/tests/*' -not -path '*/build/*' -not -name '*.pyc')
tosa_sources := $(shell find plugins/edgecore-tosa -type f -not -path '*/tests/*' -not -path '*/build/*' -not -name '*.pyc')
llm_sources := $(shell find plugins/edgecore-llm -type f -not -path '*/tests/*' -not -path '*/build/*' -not -name '*.pyc')

.PHONY: demo test test-all lint ctest pytest test-kernels test-emulated test-platforms test-ray fuzz vulkan-threads fuzz-long fuzz-graphs bench bench-processor firmware docs wheels test-wheels shaders install format clean
.DELETE_ON_ERROR:

install: $(DONE)/core $(DONE)/xnnpack

demo: install $(DONE)/torchvision $(DONE)/sklearn
	$(SAY) "demo"
	@$(PY) examples/demo.py

test:
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory ctest
	@$(MAKE) --no-print-directory pytest
	$(SAY) "make test: lint, C++ tests and Python tests passed"

test-all:
	@$(MAKE) --no-print-directory test PYTEST_ARGS="$(PYTEST_ARGS) --full"
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory test-kernels
	@$(MAKE) --no-print-directory test-emulated
	@$(MAKE) --no-print-directory test-platforms
	@$(MAKE) --no-print-directory test-wheels
	@$(MAKE) --no-print-directory test-ray
	for backend in xnnpack openvino ethosu vgf; do .venv/bin/edgecore conformance $$backend || exit 1; done
	.venv/bin/edgecore conformance vulkan --load-option validation=true
	.venv/bin/edgecore conformance qnn --tolerance 0.01
	.venv/bin/edgecore conformance coreml --load-option standin=$(CURDIR)/.venv/bin/python
	@$(MAKE) --no-print-directory fuzz
	@$(MAKE) --no-print-directory vulkan-threads
	@$(MAKE) --no-print-directory fuzz-long
	@$(MAKE) --no-print-directory fuzz-graphs
	$(SAY) "make test-all: everything passed"

lint: install $(DONE)/lint
	$(SAY) "lint"
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	tools/clang_format.sh --check

ctest: $(DONE)/native-tests $(DONE)/upstream-tests
	$(SAY) "C++ tests"
	ctest --test-dir build/test --output-on-failure --no-tests=error -j $(JOBS)
	ctest --test-dir build/test-xnnpack --output-on-failure --no-tests=error -j $(JOBS)
	for name in vulkan vgf ethosu qnn coreml llm; do ctest --test-dir build/test-$$name --output-on-failure --no-tests=error -j $(JOBS) || exit 1; done
	$(SAY) "XNNPACK's own tests of its operators: the quick ones"
	ctest --test-dir build/xnnpack-upstream -L quick --output-on-failure --no-tests=error -j $(JOBS)
	$(SAY) "XNNPACK's kernels, as chosen on each kind of processor"
	$(PYTHON) $(RUN_KERNELS)

test-kernels: $(DONE)/native-tests $(DONE)/upstream-tests
	$(SAY) "XNNPACK's kernels on all shapes, as chosen on each kind of processor"
	$(PYTHON) $(RUN_KERNELS) --full --row
	$(SAY) "XNNPACK's own tests of its operators (the first time they are compiled: some minutes)"
	cmake --build build/xnnpack-upstream
	ctest --test-dir build/xnnpack-upstream --output-on-failure --no-tests=error -j $(JOBS)

# Some Python tests drive libraries of the C++ build: the kernels, and the delegate through its test host.
# The processes of pytest share the cores: threads of PyTorch beside them cost a quarter of the time.
pytest: install $(DONE)/torchvision $(DONE)/sklearn $(DONE)/test $(DONE)/openvino $(DONE)/openvino-2025 $(DONE)/vulkan $(DONE)/tosa $(DONE)/ethosu $(DONE)/vgf $(DONE)/qnn $(DONE)/coreml $(DONE)/llm $(DONE)/native-tests $(DONE)/arm64-xnnpack
	$(SAY) "Python tests"
	EDGECORE_KERNELS_BUILD=$(CURDIR)/build/test/runtime_cpp/kernels EDGECORE_KERNELS_ARM64=$(ARM64_KERNELS) \
	EDGECORE_XNNPACK_BUILD=$(CURDIR)/build/test-xnnpack EDGECORE_XNNPACK_PLATFORMS=$(CURDIR)/build/platforms \
	EDGECORE_OPENVINO_2025=$(CURDIR)/build/openvino-2025 OMP_NUM_THREADS=1 $(PY) -m pytest $(PYTEST_ARGS)

test-emulated: install $(DONE)/test
	$(SAY) "XNNPACK for every x86 processor (the first time it is compiled: some minutes)"
	emulated=$$($(PYTHON) plugins/edgecore-xnnpack/native/third_party/get_xnnpack.py --emulated) && \
	cmake -S plugins/edgecore-xnnpack/native -B build/test-emulated -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
		-Dedgecore_DIR=$(CURDIR)/cmake -DEDGECORE_XNNPACK_TESTS=ON -DXNNPACK_DIR=$$emulated
	cmake --build build/test-emulated
	$(SAY) "emulated kernels: C++ tests"
	ctest --test-dir build/test-emulated --output-on-failure --no-tests=error
	$(PYTHON) plugins/edgecore-xnnpack/native/tests/run_kernels.py build/test-emulated
	$(SAY) "emulated kernels: Python tests"
	EDGECORE_XNNPACK_EMULATED=$(CURDIR)/build/test-emulated $(PY) -m pytest plugins/edgecore-xnnpack/tests/native/test_emulated.py

# Each processor runs all tests of the kernels. The first use of zig compiles its C++ library, for minutes.
test-platforms: install $(DONE)/torchvision $(DONE)/sklearn $(DONE)/test $(DONE)/arm64-xnnpack $(DONE)/armv7-xnnpack $(DONE)/zig
	$(SAY) "XNNPACK on emulated Arm processors"
	EDGECORE_XNNPACK_PLATFORMS=$(CURDIR)/build/platforms $(PY) -m pytest $(PYTEST_ARGS) --full \
		plugins/edgecore-xnnpack/tests/native/test_platforms.py tests/interop/test_zoo_arm64.py tests/test_layers.py
	$(SAY) "portable kernels on emulated processors"
	for processor in cortex-a53 neoverse-n1 max; do \
		EDGECORE_KERNELS_ARM64=$(ARM64_KERNELS) EDGECORE_KERNELS_PROCESSOR=$$processor $(PY) -m pytest $(PYTEST_ARGS) \
			tests/kernels || exit 1; \
	done
	EDGECORE_KERNELS_ARM64=$(ARM64_KERNELS) $(PY) -m pytest $(PYTEST_ARGS) --full tests/test_layers.py \
		tests/kernels/test_emulated.py tests/native/test_arm64.py

fuzz: $(DONE)/fuzzers
	$(SAY) "fuzzers"
	ctest --test-dir build/fuzz -R 'edgecore_core_test|fuzz' --output-on-failure --no-tests=error
	$(SAY) "thread sanitizer"
	cmake -S . -B build/threads -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DEDGECORE_BUILD_TESTS=ON \
		-DEDGECORE_SANITIZE=thread
	cmake --build build/threads --target host_test
	ctest --test-dir build/threads -R '^host$$' --output-on-failure --no-tests=error
	$(SAY) "sanitizers: XNNPACK delegates: blobs, and what delegates share"
	cmake -S plugins/edgecore-xnnpack/native -B build/xnnpack-thread -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
		-Dedgecore_DIR=$(CURDIR)/cmake -DEDGECORE_XNNPACK_TESTS=ON -DCMAKE_CXX_FLAGS="-fsanitize=thread"
	cmake --build build/xnnpack-thread --target edgecore_xnnpack_tests
	for kind in thread address; do ctest --test-dir build/xnnpack-$$kind --output-on-failure --no-tests=error || exit 1; done
	$(SAY) "address sanitizer: Vulkan delegates, the readers of the blobs of VGF, Ethos-U, QNN and Core ML, runner and tokenizers of edgecore-llm"
	for name in vulkan vgf ethosu qnn coreml llm; do ctest --test-dir build/$$name-address --output-on-failure --no-tests=error || exit 1; done

vulkan-threads: $(DONE)/fuzzers
	$(SAY) "thread sanitizer: Vulkan delegates"
	cmake -S plugins/edgecore-vulkan/native -B build/vulkan-thread -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
		-Dedgecore_DIR=$(CURDIR)/cmake -DEDGECORE_VULKAN_TESTS=ON -DCMAKE_CXX_FLAGS="-fsanitize=thread"
	cmake --build build/vulkan-thread
	ctest --test-dir build/vulkan-thread --output-on-failure --no-tests=error

fuzz-long: install $(DONE)/fuzzers
	$(SAY) "files to start from"
	mkdir -p build/fuzz-long/seeds
	build/fuzz/runtime_cpp/fuzz/edgecore_make_seeds build/fuzz-long/seeds
	cd tests && ../$(PY) -m fuzz.seeds ../build/fuzz-long/seeds
	$(SAY) "fuzzers: $(INPUTS) inputs"
	cd tests && ../$(PY) -m fuzz.long --inputs $(INPUTS) --jobs $(JOBS)

test-ray: install $(DONE)/test $(DONE)/ray
	$(SAY) "sweeps on a Ray cluster"
	$(PY) -m pytest --full tests/sweeps/test_ray_pool.py

fuzz-graphs: install $(DONE)/test
	cd tests && ../$(PY) -m fuzz.run --graphs $(GRAPHS) --progress ../build/fuzz-graphs
	cd tests && ../$(PY) -m fuzz.models.run --models $(MODELS) --progress ../build/fuzz-models

bench: install $(DONE)/torchvision $(DONE)/test
	$(PY) benchmarks/check.py

bench-processor: install $(DONE)/torchvision $(DONE)/test
	$(PY) -m pip install --quiet onnxruntime onnx onnxscript openvino nncf
	$(PY) benchmarks/processor.py

# On one thread, these small networks are trained in seconds.
firmware: install $(DONE)/sklearn $(DONE)/ethosu
	OMP_NUM_THREADS=1 $(PY) examples/firmware/firmware.py

docs: install $(DONE)/docs
	$(SAY) "documentation"
	rm -rf build/docs/doxygen build/docs/html && mkdir -p build/docs/doxygen
	doxygen docs/Doxyfile
	$(PY) -m sphinx --fail-on-warning --keep-going --nitpicky --quiet -b html -d build/docs/doctrees docs build/docs/html
	@echo "build/docs/html/index.html"

shaders: $(DONE)/system
	$(PYTHON) plugins/edgecore-vulkan/native/shaders/build.py

format: $(DONE)/lint
	$(PY) -m ruff check --fix
	$(PY) -m ruff format
	tools/clang_format.sh

wheels: install $(DONE)/release
	$(SAY) "publishable wheels"
	rm -rf dist/publish
	$(PY) tools/cross/wheels.py
	@ls -l dist/publish

test-wheels: wheels $(DONE)/test
	$(SAY) "wheels for 64-bit Arm"
	EDGECORE_ARM_WHEELS=$(CURDIR)/dist/publish $(PY) -m pytest --full tests/native/test_arm_wheels.py

clean:
	rm -rf build dist $(DONE) plugins/*/build

# --- Setting up -------------------------------------------------------------------------------------------------------

$(DONE)/system: tools/system_packages.sh
	$(SAY) "system packages"
	@mkdir -p $(DONE)
	tools/system_packages.sh $(PYTHON)
	@touch $@

$(PY): | $(DONE)/system
	$(SAY) "virtual environment .venv"
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet --upgrade "pip>=25.1"

# torch first and by its exact number: a range may choose a build for GPUs.
$(DONE)/torch: | $(PY)
	$(SAY) "$(TORCH) (a large download)"
	$(PIP) install $(TORCH)
	@touch $@

$(DONE)/torchvision: $(DONE)/torch
	$(PIP) install --quiet --no-deps torchvision==0.28.0
	$(PIP) install --quiet pillow
	@touch $@

$(DONE)/sklearn: $(DONE)/torch
	$(PIP) install --quiet scikit-learn
	@touch $@

$(DONE)/ray: pyproject.toml | $(DONE)/core
	$(SAY) "Ray (a download of 80 MB)"
	$(PIP) install --quiet "edgecore[ray]"
	@touch $@

$(DONE)/lint: pyproject.toml | $(PY)
	$(PIP) install --quiet --group lint
	@touch $@

# Chromium shows the pages of reports in tests.
$(DONE)/test: pyproject.toml tools/system_packages.sh $(DONE)/torch
	$(SAY) "test tools and executorch, the peer"
	tools/system_packages.sh $(PYTHON) chromium chromium-driver
	$(PIP) install --quiet --group test executorch==1.5.1 transformers expecttest
	$(PIP) install --quiet --no-deps ai-edge-model-explorer  # without the other viewers' adapters, which have 100 MB
	$(PIP) install --quiet dacite flask portpicker requests termcolor watchdog
	@touch $@

$(DONE)/docs: pyproject.toml tools/system_packages.sh | $(PY)
	@$(PY) -c 'import sys; sys.exit("Sphinx needs Python 3.11: PYTHON=python3.11 make docs" if sys.version_info < (3, 11) else 0)'
	tools/system_packages.sh $(PYTHON) doxygen
	$(PIP) install --quiet --group docs
	@touch $@

$(DONE)/zig: pyproject.toml | $(PY)
	$(PIP) install --quiet --group zig
	@touch $@

$(DONE)/release: pyproject.toml | $(PY)
	$(PIP) install --quiet --group release
	@touch $@

# --- C++ tests --------------------------------------------------------------------------------------------------------

$(DONE)/native-tests: $(core_native) $(schemas) $(xnnpack_native) $(vulkan_native) $(vgf_native) $(ethosu_native) $(qnn_native) $(coreml_native) $(llm_native) $(DONE)/xnnpack-library
	$(SAY) "C++ tests: build"
	cmake -S . -B build/test -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DEDGECORE_BUILD_TESTS=ON -DEDGECORE_BUILD_TOOLS=ON
	cmake --build build/test --target all edgecore_kernels_test
	cmake -S plugins/edgecore-xnnpack/native -B build/test-xnnpack -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
		-Dedgecore_DIR=$(CURDIR)/cmake -DEDGECORE_XNNPACK_TESTS=ON
	cmake --build build/test-xnnpack
	for name in vulkan vgf ethosu qnn coreml llm; do \
		cmake -S plugins/edgecore-$$name/native -B build/test-$$name -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
			-Dedgecore_DIR=$(CURDIR)/cmake -DEDGECORE_$$(echo $$name | tr a-z A-Z)_TESTS=ON && \
		cmake --build build/test-$$name || exit 1; \
	done
	@touch $@

$(DONE)/arm64-core: CMakePresets.json $(core_native) $(schemas) $(DONE)/system
	$(SAY) "portable kernels and edgecore-run for 64-bit Arm: build"
	cmake --preset linux-arm64
	cmake --build build/linux-arm64 --target edgecore_kernels_serve edgecore-run
	@touch $@

$(DONE)/arm64-xnnpack: $(xnnpack_native) $(DONE)/arm64-core
	$(SAY) "XNNPACK for 64-bit Arm: build, with the C++ tests of its delegate (the first time some minutes)"
	cmake -S plugins/edgecore-xnnpack/native -B build/platforms/aarch64/xnnpack -G Ninja -DCMAKE_BUILD_TYPE=Release \
		-DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/plugins/edgecore-xnnpack/native/cmake/aarch64-linux-gnu.cmake \
		-Dedgecore_DIR=$(CURDIR)/cmake -DEDGECORE_XNNPACK_TESTS=ON
	cmake --build build/platforms/aarch64/xnnpack
	ln -sfn ../../linux-arm64 build/platforms/aarch64/core
	@touch $@

$(DONE)/armv7-core: CMakePresets.json $(core_native) $(schemas) $(DONE)/system
	$(SAY) "edgecore-run for 32-bit Arm: build"
	tools/system_packages.sh $(PYTHON) g++-arm-linux-gnueabihf
	cmake --preset linux-armv7
	cmake --build build/linux-armv7 --target edgecore-run
	@touch $@

$(DONE)/armv7-xnnpack: $(xnnpack_native) $(DONE)/armv7-core
	$(SAY) "XNNPACK for 32-bit Arm: build, with the C++ tests of its delegate (the first time some minutes)"
	cmake -S plugins/edgecore-xnnpack/native -B build/platforms/armv7/xnnpack -G Ninja -DCMAKE_BUILD_TYPE=Release \
		-DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/plugins/edgecore-xnnpack/native/cmake/arm-linux-gnueabihf.cmake \
		-Dedgecore_DIR=$(CURDIR)/cmake -DEDGECORE_XNNPACK_TESTS=ON
	cmake --build build/platforms/armv7/xnnpack
	ln -sfn ../../linux-armv7 build/platforms/armv7/core
	@touch $@

$(DONE)/fuzzers: $(core_native) $(schemas) $(xnnpack_native) $(vulkan_native) $(vgf_native) $(ethosu_native) $(qnn_native) $(coreml_native) $(llm_native) $(DONE)/xnnpack-library
	$(SAY) "fuzzers: build, with sanitizers"
	cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DEDGECORE_BUILD_TESTS=ON \
		-DEDGECORE_BUILD_FUZZERS=ON -DEDGECORE_SANITIZE=address,undefined
	cmake --build build/fuzz --target edgecore_core_test edgecore_fuzzers
	cmake -S plugins/edgecore-xnnpack/native -B build/xnnpack-address -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
		-Dedgecore_DIR=$(CURDIR)/cmake -DEDGECORE_XNNPACK_TESTS=ON -DEDGECORE_XNNPACK_FUZZ=ON \
		-DCMAKE_CXX_FLAGS="-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all"
	cmake --build build/xnnpack-address --target edgecore_xnnpack_tests blob_fuzz
	for name in vulkan vgf ethosu qnn coreml llm; do \
		cmake -S plugins/edgecore-$$name/native -B build/$$name-address -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
			-Dedgecore_DIR=$(CURDIR)/cmake -DEDGECORE_$$(echo $$name | tr a-z A-Z)_TESTS=ON \
			-DEDGECORE_LLM_FUZZ=ON -DEDGECORE_ETHOSU_FUZZ=ON --no-warn-unused-cli \
			-DCMAKE_CXX_FLAGS="-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all" && \
		cmake --build build/$$name-address || exit 1; \
	done
	@touch $@

$(DONE)/upstream-tests: $(wildcard plugins/edgecore-xnnpack/native/tests/upstream/*) $(DONE)/xnnpack-library
	$(SAY) "XNNPACK's own tests of its operators: build of the quick ones"
	$(PYTHON) plugins/edgecore-xnnpack/native/third_party/get_xnnpack.py --sources build/xnnpack-sources
	cmake -S plugins/edgecore-xnnpack/native/tests/upstream -B build/xnnpack-upstream -G Ninja \
		-DCMAKE_BUILD_TYPE=RelWithDebInfo -DSOURCES=$(CURDIR)/build/xnnpack-sources
	cmake --build build/xnnpack-upstream --target quick
	@touch $@

# --- Our packages, built as wheels and installed from them ------------------------------------------------------------

$(DONE)/core: $(core_native) $(core_python) README.md $(DONE)/torch $(DONE)/system
	$(SAY) "edgecore: wheel"
	rm -f dist/edgecore-*.whl
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .
	$(PIP) install --quiet --force-reinstall --no-deps dist/edgecore-*.whl
	$(PIP) install --quiet "edgecore[compile]"
	@touch $@

# Kept in a cache outside the tree. XNNPACK_DIR names an installed one that is taken instead.
$(DONE)/xnnpack-library: $(wildcard plugins/edgecore-xnnpack/native/third_party/* plugins/edgecore-xnnpack/native/cpuinfo/*) $(DONE)/system
	$(SAY) "XNNPACK (the first time it is compiled: a few minutes)"
	@[ -n "$$XNNPACK_DIR" ] || $(PYTHON) plugins/edgecore-xnnpack/native/third_party/get_xnnpack.py
	@touch $@

# Core sources other than the headers that it compiles against do not concern it.
$(DONE)/xnnpack: $(xnnpack_sources) $(core_headers) $(DONE)/xnnpack-library | $(DONE)/core
	$(SAY) "edgecore-xnnpack: wheel"
	rm -f dist/edgecore_xnnpack-*.whl
	$(PIP) wheel --quiet --no-deps --find-links dist --wheel-dir dist plugins/edgecore-xnnpack
	$(PIP) install --quiet --force-reinstall --no-deps dist/edgecore_xnnpack-*.whl
	@touch $@

# Its tests stay out where OpenVINO has no wheel for this machine.
$(DONE)/openvino: $(openvino_sources) $(core_headers) | $(DONE)/core
	$(SAY) "edgecore-openvino: wheel, and OpenVINO (a download of 60 MB)"
	rm -f dist/edgecore_openvino-*.whl
	$(PIP) wheel --quiet --no-deps --find-links dist --wheel-dir dist plugins/edgecore-openvino
	$(PIP) install --quiet "openvino>=2026.4,<2027" && \
	$(PIP) install --quiet --force-reinstall --no-deps dist/edgecore_openvino-*.whl || echo "OpenVINO is not to be had: without its tests"
	@touch $@

# The runtime of executorch 1.5.1 crashes with OpenVINO 2026, with its own files too.
$(DONE)/openvino-2025: | $(DONE)/openvino
	$(SAY) "OpenVINO 2025 for executorch (a download of 50 MB)"
	rm -rf build/openvino-2025
	$(PIP) install --quiet --no-deps --target build/openvino-2025 "openvino>=2025.3,<2026" || echo "OpenVINO 2025 is not to be had: without a test"
	@touch $@

# Its Vulkan device for tests is Mesa's lavapipe, a system package.
$(DONE)/vulkan: $(vulkan_sources) $(vulkan_layer) $(core_headers) $(DONE)/system | $(DONE)/core
	$(SAY) "edgecore-vulkan: wheel"
	rm -f dist/edgecore_vulkan-*.whl
	$(PIP) wheel --quiet --no-deps --find-links dist --wheel-dir dist plugins/edgecore-vulkan
	$(PIP) install --quiet --force-reinstall --no-deps dist/edgecore_vulkan-*.whl
	@touch $@

# Its simulator links Arm's reference model, which pip downloads into the cache outside of the tree.
$(DONE)/tosa: $(tosa_sources) $(DONE)/system | $(DONE)/core
	$(SAY) "edgecore-tosa: wheel (the first time with a download of 27 MB)"
	rm -f dist/edgecore_tosa-*.whl
	$(PIP) wheel --quiet --no-deps --find-links dist --wheel-dir dist plugins/edgecore-tosa
	$(PIP) install --quiet --force-reinstall --no-deps dist/edgecore_tosa-*.whl
	@touch $@

$(DONE)/ethosu: $(ethosu_sources) $(core_headers) $(DONE)/system $(DONE)/tosa | $(DONE)/core
	$(SAY) "edgecore-ethosu: wheel, and Arm's compiler Vela"
	rm -f dist/edgecore_ethosu-*.whl
	$(PIP) wheel --quiet --no-deps --find-links dist --wheel-dir dist plugins/edgecore-ethosu
	$(PIP) install --quiet "ethos-u-vela>=5.2,<6"
	$(PIP) install --quiet --force-reinstall --no-deps dist/edgecore_ethosu-*.whl
	@touch $@

# Its tests run on the emulator in Qualcomm's package.
$(DONE)/qnn: $(qnn_sources) $(core_headers) $(DONE)/system | $(DONE)/core
	$(SAY) "edgecore-qnn: wheel, and ONNX Runtime with Qualcomm's provider (a download of 100 MB)"
	rm -f dist/edgecore_qnn-*.whl
	$(PIP) wheel --quiet --no-deps --find-links dist --wheel-dir dist plugins/edgecore-qnn
	$(PIP) install --quiet "onnx>=1.18,<2" "onnxruntime==1.31.1" "onnxruntime-qnn==2.7.0"
	$(PIP) install --quiet --force-reinstall --no-deps dist/edgecore_qnn-*.whl
	@touch $@

# Its tests run in Arm's emulation layer on lavapipe.
$(DONE)/vgf: $(vgf_sources) $(vulkan_layer) $(core_headers) $(DONE)/system $(DONE)/tosa | $(DONE)/core
	$(SAY) "edgecore-vgf: wheel, and Arm's converter and emulation layer (a download of 40 MB)"
	rm -f dist/edgecore_vgf-*.whl
	$(PIP) wheel --quiet --no-deps --find-links dist --wheel-dir dist plugins/edgecore-vgf
	$(PIP) install --quiet "ai-ml-sdk-model-converter>=0.11,<0.12" "ai-ml-emulation-layer-for-vulkan>=0.11,<0.12"
	$(PIP) install --quiet --force-reinstall --no-deps dist/edgecore_vgf-*.whl
	@touch $@

# Its models run on Apple's systems only; the tests have a stand-in.
$(DONE)/coreml: $(coreml_sources) $(core_headers) $(DONE)/system | $(DONE)/core
	$(SAY) "edgecore-coreml: wheel, and coremltools"
	rm -f dist/edgecore_coreml-*.whl
	$(PIP) wheel --quiet --no-deps --find-links dist --wheel-dir dist plugins/edgecore-coreml
	$(PIP) install --quiet "coremltools>=9,<10"
	$(PIP) install --quiet --force-reinstall --no-deps dist/edgecore_coreml-*.whl
	@touch $@

$(DONE)/llm: $(llm_sources) $(core_headers) $(DONE)/test | $(DONE)/core
	$(SAY) "edgecore-llm: wheel, and what its tests compare with"
	rm -f dist/edgecore_llm-*.whl
	$(PIP) wheel --quiet --no-deps --find-links dist --wheel-dir dist plugins/edgecore-llm
	$(PIP) install --quiet --group plugins/edgecore-llm/pyproject.toml:test safetensors tokenizers
	$(PIP) install --quiet --force-reinstall --no-deps dist/edgecore_llm-*.whl
	@touch $@
