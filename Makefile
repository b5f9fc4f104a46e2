# weir: short names over CMake. Everything lands in build*/ and in the model
# store ($WEIR_STORE, else ~/.cache/weir/store).

BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)
CMAKE_FLAGS ?=
# Kinds of NVIDIA card to build for: the one in this machine, else 90; "all" for a package.
CUDA_ARCHS ?=
GENERATOR := $(if $(shell command -v ninja),-G Ninja,)
PROMPT ?= What is the capital of France? Answer in one sentence.

# The compute capabilities of this machine's cards, "90" or "80;90"; empty without one that weir can use.
cards = nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -E '^[0-9]+\.[0-9]$$' | tr -d . | \
    awk '$$1 >= 80' | sort -un | paste -sd ';' -

# $(call build,folder,flags): configure when needed, then build.
define build
	@test -f $(1)/CMakeCache.txt || { archs="$(CUDA_ARCHS)"; archs=$${archs:-$$($(cards))}; \
	    cmake $(GENERATOR) -S . -B $(1) "-DWEIR_CUDA_ARCHS=$${archs:-90}" $(2) $(CMAKE_FLAGS) >$(1).log 2>&1; } || \
	    { cat $(1).log; rm -f $(1).log; exit 1; }
	@rm -f $(1).log
	@cmake --build $(1) -j $(JOBS)
endef

.PHONY: all setup run test install bench docs style format asan ubsan tsan fuzz clean

all:
	$(call build,$(BUILD),)

setup:
	@tools/setup.sh

# A real model answers. The model is fetched once.
run: setup all
	@model=$$(python3 tools/get_models.py) && exec $(BUILD)/weir run "$$model" -p "$(PROMPT)" --temperature 0

# Everything: the whole suite, and its quick tests again under sanitizers.
test: setup all
	$(call build,build-asan,-DWEIR_SANITIZE=address$(comma)undefined)
	@python3 tools/get_models.py >/dev/null
	@python3 tools/python_env.py >/dev/null
	@python3 tools/get_tokenizers.py >/dev/null
	@python3 tools/run_tests.py --build $(BUILD) --sanitized build-asan $(TESTS)

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

bench: all
	@model=$$(python3 tools/get_models.py) && exec $(BUILD)/weir bench "$$model"

# docs/commands.md comes out of the command's tables; a test compares the two.
docs: all
	@$(BUILD)/weir help --format markdown >docs/commands.md

style:
	@python3 tools/check_style.py
	@python3 tools/check_rooms.py

format:
	@find src include tests fuzz bench examples -name '*.[ch]' -exec clang-format -i {} +

# The suite in one sanitizer; `make tsan TESTS=base` runs only names with "base".
asan:
	$(call build,build-address,-DWEIR_SANITIZE=address)
	@python3 tools/run_tests.py --only-c --build build-address $(TESTS)

ubsan:
	$(call build,build-undefined,-DWEIR_SANITIZE=undefined)
	@python3 tools/run_tests.py --only-c --build build-undefined $(TESTS)

tsan:
	$(call build,build-thread,-DWEIR_SANITIZE=thread)
	@python3 tools/run_tests.py --only-c --build build-thread $(TESTS)

# The fuzz targets: build-fuzz/fuzz_NAME fuzz/corpus/NAME -max_total_time=600
fuzz:
	$(call build,build-fuzz,-DWEIR_FUZZ=ON -DCMAKE_C_COMPILER=clang)

clean:
	rm -rf $(BUILD) build-asan build-address build-undefined build-thread build-fuzz

comma := ,
