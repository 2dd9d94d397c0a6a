# Every target makes what it needs: a .venv from the locked dependencies.
# A fresh Debian machine needs: python3 (>= 3.11), python3-venv, make. `make chart` also needs Go, `make e2e`
# more than that (e2e/README.md).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUNS   := $(VENV)/.runs
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/pip --quiet --disable-pip-version-check

.PHONY: demo test chart e2e e2e-cluster e2e-guest e2e-kind check fix bench study proto schema lock clean

# What numaplace needs to run, and no more: `make demo` is quick on a machine that has nothing yet.
$(RUNS): requirements/run.lock requirements/build.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "numaplace needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes -r requirements/run.lock
	$(PIP) install --require-hashes -r requirements/build.lock
	$(PIP) install --no-build-isolation --no-deps --editable .
	touch $@

$(STAMP): $(RUNS) requirements/dev.lock
	$(PIP) install --require-hashes -r requirements/dev.lock
	touch $@

demo: $(RUNS)
	@$(BIN)/numaplace demo

test: $(STAMP)
	$(BIN)/pytest tests

# Renders the Helm chart with the real helm, and asks Prometheus's own parser and promtool about its dashboard and
# alerts; needs Go, which builds all of them once (tests/chart/tool.sh).
chart: $(STAMP)
	set -- $$(tests/chart/tool.sh helm promtool promql) && [ $$# = 3 ] && \
	NUMAPLACE_HELM=$$1 NUMAPLACE_PROMTOOL=$$2 NUMAPLACE_PROMQL=$$3 $(BIN)/pytest tests/chart

e2e: $(STAMP)
	e2e/run.sh

# In emulated machines with real NUMA nodes and real VFs (e2e/guest/README.md).
e2e-guest: $(STAMP)
	e2e/guest/run.sh

# The chart and the image on a real cluster (e2e/cluster/README.md).
e2e-cluster: $(STAMP)
	e2e/cluster/run.sh
	NUMAPLACE_KUBELET=$$(e2e/cluster/build.sh older_kubelet | cut -d= -f2) \
		e2e/run.sh test_topology_manager.py test_strategies.py test_containers.py test_followed_cpus.py test_known_memory.py

# The same tests on kind, where there is docker (e2e/kind/README.md).
e2e-kind: $(STAMP)
	e2e/kind/run.sh

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	proto/generate.sh --check
	$(BIN)/python charts/schema.py --check
	$(BIN)/python -m charts.dashboard --check

fix: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m bench

study: $(STAMP)
	$(BIN)/python -m study

proto: $(STAMP)
	proto/generate.sh

# The chart's schema of the daemon's configuration, from the daemon's own model.
schema: $(STAMP)
	$(BIN)/python charts/schema.py
	$(BIN)/python -m charts.dashboard

# Rewrites the locked dependencies, with a `uv` of its own.
UV      := $(VENV)-lock/bin/uv
COMPILE := $(UV) pip compile --quiet --upgrade --generate-hashes --no-header --python-version 3.11

$(UV):
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet --disable-pip-version-check 'uv>=0.9,<1'

lock: $(UV)
	$(COMPILE) pyproject.toml -o requirements/run.lock
	echo 'setuptools>=77' | $(COMPILE) - -o requirements/build.lock
	echo 'cyclonedx-bom>=7.5' | $(COMPILE) - -o requirements/sbom.lock
	$(COMPILE) pyproject.toml --extra dev -c requirements/run.lock -o requirements/dev.lock

clean:
	rm -rf $(VENV) $(VENV)-lock .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
