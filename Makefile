PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export FLWR_TELEMETRY_ENABLED := 0
export FLWR_DISABLE_UPDATE_CHECK := 1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION := 1
export RAY_USAGE_STATS_ENABLED := 0

.PHONY: demo test test-deployed test-hostile test-all lint bench mutants lock clean manual picture docs serve-docs

demo: $(STAMP)
	$(BIN)/fedpriv run demo

# Processes share the tests. A test that cannot bear that has a defect: nothing is shared on disk.
# One more than cores: tests of Ray and of Flower's processes wait for much of their time.
WORKERS ?= 3
PARALLEL = -n $(WORKERS) --dist

test: $(STAMP)
	$(BIN)/python -m pytest -m "not deployed and not thorough" $(PARALLEL) worksteal

test-deployed: $(STAMP)
	$(BIN)/python -m pytest -m deployed

# The enemy's part over real gRPC: three federations at the same time, since most of it is waiting.
HOSTILE = $(BIN)/python -m pytest -m "deployed and hostile"
ALONE = test_insisting test_odd_replies
.PHONY: hostile-looking $(ALONE:%=hostile-%)

test-hostile: $(STAMP)
	$(MAKE) --no-print-directory --jobs 3 --output-sync=target $(ALONE:%=hostile-%) hostile-looking

hostile-looking:
	$(HOSTILE) tests/deployed $(ALONE:%=--ignore tests/deployed/%.py)

$(ALONE:%=hostile-%): hostile-%:
	$(HOSTILE) tests/deployed/$*.py

test-all: $(STAMP)
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory build/types
	cd build/types && ../../$(BIN)/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache
	cd build/types && ../../$(BIN)/lint-imports --config ../../pyproject.toml
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml

# The pages of docs/manual, made from the code. A test fails when they are stale.
manual: $(STAMP)
	$(BIN)/python docs/manual.py

# The picture of README.md, from three small federations.
picture: $(STAMP)
	$(BIN)/python docs/picture.py

# The documentation as a site: open site/index.html, or look at it while you write.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

serve-docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# The package as it is installed, as links: mypy, import-linter and editors do not see `fedpriv.__path__`.
.PHONY: build/types
build/types:
	rm -rf $@
	mkdir -p $@/fedpriv
	ln -s $(CURDIR)/fedpriv/* $(addprefix $(CURDIR)/,clients strategies attacks simulations) $@/fedpriv/

bench: $(STAMP)
	for script in benchmarks/[a-z]*.py; do $(BIN)/python $$script || exit 1; done

PACKAGE ?= fedpriv/engine
TESTS ?= tests/fedpriv/test_engine.py
mutants: $(STAMP)
	.ci/mutants "$(PACKAGE)" "$(TESTS)" $(BIN)

# Versions and hashes only: no index address, so that any mirror serves it.
lock: $(VENV)/bin/uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-annotate --no-header --output-file requirements.lock
	$(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --constraint requirements.lock \
		--no-emit-index-url --no-emit-find-links --no-annotate --no-header --output-file requirements-image.lock
	awk '/^[^ ]/ {keep = $$1 !~ /^(torch|torchvision|triton|nvidia-[a-z0-9-]*|cuda-[a-z0-9-]*)==/} keep' requirements-image.lock > requirements-cpu.lock
	sed -n 's/^\(torch\(vision\)*==[^ ]*\).*/\1/p' requirements-image.lock > requirements-torch.txt

$(VENV)/bin/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv

# Compiling at install time makes every later start several times faster where writing bytecode is off.
# TORCH_INDEX is an index of CPU wheels: torch comes from there, and tools of development are left out.
TORCH_INDEX ?=
LOCK = $(if $(TORCH_INDEX),requirements-cpu.lock,requirements.lock)
$(STAMP): $(VENV)/bin/uv $(LOCK) pyproject.toml
ifeq ($(TORCH_INDEX),)
	@echo "installing the locked packages into $(VENV): a few minutes the first time, about 7 GB"
	$(BIN)/uv pip sync --python $(BIN)/python --compile-bytecode --require-hashes $(LOCK)
else
	@echo "installing the locked packages of $(LOCK), and torch from $(TORCH_INDEX)"
	$(BIN)/uv pip sync --python $(BIN)/python --compile-bytecode --require-hashes $(LOCK)
	$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --no-deps --index-url "$(TORCH_INDEX)" --requirement requirements-torch.txt
endif
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $(STAMP)

clean:
	rm -rf $(VENV) runs
