# make demo       builds a private Slurm and runs real jobs under Tiresias and under stock FIFO, side by side
# make demo-live  two users compete: the live view, recorded in demo-out; FILM=docs for the manual's own
# make test       all tests but those marked ci or long
# make test-ci    the tests marked ci; .ci/run runs both, test-rdma and test-chaos
# make test-long  all tests
# make test-failed what failed in the last of these, one test at a time
# make manual     the manual as HTML, in build/manual
# make sbom       bill of materials in dist; make sign KEY=FINGERPRINT: checksums of dist and their signature
# make wheels     both wheels, in dist: slurm-tiresias, and slurm-tiresias-checkpoint for the environments that jobs run in
# make compiled   a copy of the package whose simulator is compiled, for long replays, in COMPILED=build/compiled; run COMPILED/bin/tiresias
# make audit      asks the public database for known weaknesses of the packages in use
# make test-rdma  the profiler's tests on RDMA, in emulated machines; CI runs them, too
# make test-records extreme records of jobs and nodes through both back ends: RECORDS=100000 SEED=...; results in build/records.json
# make test-chaos a real Slurm with everything going wrong: MINUTES=10 SEED=..., and KILLS=60 kills of the controller at its steps
# make test-images programs without checkpoints under DMTCP, which is built in build/dmtcp, and under CRIU where it is installed
# make coverage   lines and branches that the tests without a cluster execute; results in build/coverage
# make test-mutants whether the fast tests notice wrong code: MUTANTS=300 SEED=1, MUTANTS=0 for all mutations
#
# Variables of the demo:
#   JOBS=60            how many jobs; 480 is the paper's whole testbed
#   TIME_SCALE=40      seconds of the trace per second
#   COMPRESS=3         brings arrivals closer together, so that few jobs compete as many do; 1 from 480 jobs on
#   TRACE=FILE         another trace (default: the shipped testbed480_seed1.csv, else the same workload generated)
#   POLICIES=las,slurm-fifo; also slurm-backfill, fifo, best_effort
#   SEED=14            of the generated workload

PYTHON ?= python3
VENV ?= .venv
BUILD ?= $(VENV)-build
JOBS ?= 60
TIME_SCALE ?= 40
COMPRESS ?= $(shell [ $(JOBS) -ge 480 ] && echo 1 || echo 3)
POLICIES ?= las,slurm-fifo
# The simulated gain of the first 60 jobs is 1.1 to 2.1, depending on the seed; this one's is the median of seeds 1 to 20.
SEED ?= 14
TRACE ?= $(wildcard ../shared/data/testbed480_seed1.csv)
OUT := demo-out

TREES := tree-forky tree-forky-accounting tree-trixie tree-bookworm
.PHONY: demo demo-live audit coverage test test-ci test-long test-failed test-rdma test-chaos test-records test-mutants test-images test-system trees $(TREES) installed lint pages manual deb rpm sbom sign wheels compiled venv bench clean system
.DEFAULT_GOAL := demo

demo: $(VENV)/.runs
	@mkdir -p $(OUT)
	@trace="$(TRACE)"; [ -n "$$trace" ] || { trace=$(OUT)/workload.csv; $(VENV)/bin/tiresias workload testbed --seed $(SEED) --out $$trace; }; \
	echo "demo: the first $(JOBS) jobs of $$trace, arrivals $(COMPRESS) times closer, $(TIME_SCALE) seconds of it in one real second"; \
	$(VENV)/bin/tiresias sandbox replay $$trace --policy $(POLICIES) --jobs $(JOBS) --compress $(COMPRESS) \
	  --time-scale $(TIME_SCALE) --json $(OUT)/result.json

FILM ?= $(OUT)
demo-live: $(VENV)/.develops
	@mkdir -p $(OUT)
	@$(VENV)/bin/tiresias sandbox demo --record $(OUT)/recording.cast
	@$(VENV)/bin/python docs/film.py $(OUT)/recording.cast $(FILM)

# Each Python that a test starts would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Most tests wait for Slurm and not for a processor: several files at a time, one after the other within a file.
WORKERS ?= 4
TESTS := -m 'not ci and not long'
test-ci: TESTS := -m 'ci and not long'
test-long: TESTS :=
test test-ci test-long:
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target installed trees lint test-system
	$(VENV)/bin/python -m pytest $(TESTS) -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

test-failed: $(VENV)/.develops
	$(VENV)/bin/python -m pytest --last-failed --last-failed-no-failures=none -n 1 --dist loadgroup --no-loadscope-reorder

# build/coverage/html/index.html, and a table of the folders in build/coverage.txt
coverage: $(VENV)/.develops
	@mkdir -p build/coverage
	$(VENV)/bin/python -m coverage run -m pytest -q -m 'not sandbox and not slow and not long' tests
	@$(VENV)/bin/python -m coverage html -q
	@$(VENV)/bin/python -m coverage json -q -o build/coverage/coverage.json
	@$(VENV)/bin/python tests/coverage_table.py build/coverage/coverage.json | tee build/coverage.txt

# Known weaknesses of the packages in use, by pip-audit; "not checked" where the public database cannot be reached.
audit: $(VENV)/.audits
	@$(VENV)/bin/python -m pytest -rs tests/security/test_dependencies.py

# RDMA in emulated machines, by soft-RoCE. `make test` has the tests with a library that stands in for RDMA.
test-rdma: test-system $(VENV)/.develops
	$(VENV)/bin/python -m pytest tests/profiler/rdma

MINUTES ?= 10
SEED ?=
KILLS ?= 60
test-chaos: trees $(VENV)/.develops
	$(VENV)/bin/python tests/chaos/run.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))
	$(VENV)/bin/python tests/chaos/kills.py --kills $(KILLS) --slurmctld-restarts 5 --minutes 5 $(if $(SEED),--seed $(SEED))
	$(VENV)/bin/python tests/chaos/flood.py --jobs 400 --tasks 400 --seconds 5

RECORDS ?= 100000
test-records: $(VENV)/.develops
	@mkdir -p build
	$(VENV)/bin/python -m tests.slurm_plugin.backends.extreme_records --records $(RECORDS) --json build/records.json $(if $(SEED),--seed $(SEED))

# DMTCP's release, by its commit; GitHub must be reachable.
DMTCP_RELEASE := v4.2.0
DMTCP_COMMIT := f8009ce7b4ad211311ca2f72a929b975e4aa1155
build/dmtcp/bin/dmtcp_launch:
	rm -rf build/dmtcp-source && mkdir -p build
	git -c advice.detachedHead=false clone -q --depth 1 --branch $(DMTCP_RELEASE) https://github.com/dmtcp/dmtcp build/dmtcp-source
	cd build/dmtcp-source && [ "$$(git rev-parse HEAD)" = $(DMTCP_COMMIT) ]
	cd build/dmtcp-source && ./configure -q --prefix=$(CURDIR)/build/dmtcp && $(MAKE) -s && $(MAKE) -s install

test-images: build/dmtcp/bin/dmtcp_launch trees $(VENV)/.develops
	PATH=$(CURDIR)/build/dmtcp/bin:$$PATH $(VENV)/bin/python -m pytest -rs tests/wrappers/images tests/slurm_plugin/controller/test_controller_images.py

# Results in build/mutants.json; docs/how-to/mutation-tests.md explains them.
MUTANTS ?= 300
test-mutants: $(VENV)/.mutates
	@mkdir -p build
	$(VENV)/bin/python tests/mutants/run.py --mutants $(MUTANTS) --json build/mutants.json $(if $(SEED),--seed $(SEED))

# The Debian trees that the tests need, built before any test's clock runs, while more of Python's packages are installed. What cannot
# be built, the tests report.
trees: $(TREES)
$(TREES): $(VENV)/.runs
	-@$(VENV)/bin/python -c "import sys; from tiresias.sandbox import pyslurm_layer, rootfs; \
	  suite, _, accounting = sys.argv[1].partition('-'); \
	  pyslurm_layer.ensure(rootfs.ensure(suite, accounting=bool(accounting), report=print), report=print)" $(@:tree-%=%)

# Man pages and completions of the shells: build/man, build/completions
pages: $(VENV)/.develops
	$(VENV)/bin/python docs/pages.py build

# The manual as HTML: build/manual/index.html. Nothing is fetched.
manual: $(VENV)/.develops
	$(VENV)/bin/python -m sphinx -W --keep-going -q docs build/manual

# dist/slurm-tiresias_VERSION_ARCHITECTURE.deb
deb: $(VENV)/.develops $(BUILD)/.builds
	BUILD_PYTHON=$(abspath $(BUILD))/bin/python $(VENV)/bin/python etc/packages/build.py dist deb

# dist/slurm-tiresias-VERSION-1.ARCHITECTURE.rpm
rpm: $(VENV)/.develops $(BUILD)/.builds
	BUILD_PYTHON=$(abspath $(BUILD))/bin/python $(VENV)/bin/python etc/packages/build.py dist rpm

# dist/slurm_tiresias-VERSION-py3-none-manylinux_*.whl, whose libraries are compiled in a Debian 11 (etc/packages/wheel.py), and dist/slurm_tiresias_checkpoint-VERSION-*.whl
wheels: $(VENV)/.develops $(BUILD)/.builds
	BUILD_PYTHON=$(abspath $(BUILD))/bin/python $(VENV)/bin/python etc/packages/wheel.py dist
	cd etc/packages/checkpoint && $(abspath $(BUILD))/bin/python -m hatchling build -t wheel -d $(CURDIR)/dist

# docs/how-to/long-replays.md
COMPILED ?= build/compiled
compiled: $(VENV)/.develops
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check 'mypy[mypyc]'
	$(VENV)/bin/python etc/packages/compiled.py $(COMPILED)

# dist/slurm-tiresias-VERSION.cdx.json: what it has, needs and was built with (CycloneDX)
sbom: $(VENV)/.develops
	$(VENV)/bin/python etc/packages/sbom.py dist

# dist/SHA256SUMS and its signature: make sign KEY=FINGERPRINT
sign: sbom
	etc/packages/sign.sh $(if $(KEY),$(KEY),$(error make sign KEY=FINGERPRINT of a secret key that gpg has)) dist

lint: $(VENV)/.develops
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

venv: $(VENV)/.develops

bench: $(VENV)/.develops
	@for each in $$(grep -l __main__ bench/*.py); do echo "$$each"; $(VENV)/bin/python $$each; done

# Installs the Debian packages in $$need. Without the right to: exit code $(1).
define install
[ -z "$$need" ] && exit 0; \
[ "$$(id -u)" = 0 ] || { echo "missing:$$need. Run as root: apt-get install$$need" >&2; exit $(1); }; \
echo "installing$$need"; export DEBIAN_FRONTEND=noninteractive; \
install="apt-get install -qq -y --no-install-recommends$$need"; \
$$install > /dev/null 2>&1 || { apt-get update -qq && $$install > /dev/null; }
endef

# What the private cluster needs; only what is missing is installed.
system:
	@need=""; \
	has() { PATH="$$PATH:/usr/sbin:/sbin" command -v "$$1" > /dev/null; }; \
	has mmdebstrap || need="$$need mmdebstrap"; \
	has bwrap || need="$$need bubblewrap"; \
	has ip || need="$$need iproute2"; \
	has nsenter && has unshare && has setpriv || need="$$need util-linux"; \
	$(PYTHON) -c "import venv, ensurepip" 2> /dev/null || need="$$need python3-venv"; \
	$(call install,1)

# What some tests need besides: for the profiler a compiler, rdma-core's headers and an emulator; for checkpoints a file system that
# caches; for the packages rpm, and what users' shells bring: completions and modules, of which Debian has one kind at a time. Without
# them they are skipped, with the reason.
test-system: system
	-@need=""; \
	command -v cc > /dev/null && [ -e /usr/include/stdio.h ] || need="$$need gcc libc6-dev"; \
	[ -e /usr/include/infiniband/verbs.h ] || need="$$need libibverbs-dev"; \
	command -v qemu-system-x86_64 > /dev/null || need="$$need qemu-system-x86"; \
	for each in rpm zsh fish bindfs; do command -v $$each > /dev/null || need="$$need $$each"; done; \
	[ -e /usr/share/modules/init/sh ] || [ -e /usr/share/lmod/lmod/init/sh ] || need="$$need environment-modules"; \
	$(call install,0)

$(VENV)/.runs: pyproject.toml | system
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

# pip learned to read dependency groups in 25.1; Debian 12 brings 23.0
$(VENV)/.develops: $(VENV)/.runs
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check 'pip>=25.1'
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --group dev
	@touch $@

# PyTorch for CPUs and what runs on it, 0.9 GB. pip finds it where PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS names a place that has
# PyTorch's CPU builds. Where it is unavailable, the tests that need it are skipped with that reason.
TORCH ?= torch==2.13.0+cpu
INSTALL := $(VENV)/bin/python -m pip install -q --disable-pip-version-check
$(VENV)/.trains: $(VENV)/.develops
	-@$(INSTALL) '$(TORCH)' && $(INSTALL) --group frameworks && touch $@

# One after the other: there is one folder for them.
installed: $(VENV)/.develops
	@$(MAKE) --no-print-directory $(VENV)/.trains
	@$(MAKE) --no-print-directory $(VENV)/.audits

# What builds the wheels, each file by its hash.
$(BUILD)/.builds: etc/packages/build-requirements.txt | system
	@$(PYTHON) -m venv $(BUILD)
	@$(BUILD)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r etc/packages/build-requirements.txt
	@touch $@

$(VENV)/.mutates: $(VENV)/.develops
	@$(INSTALL) --group mutants
	@touch $@

$(VENV)/.audits: $(VENV)/.develops
	-@$(INSTALL) --group audit && touch $@

clean:
	rm -rf $(OUT) $(VENV) $(BUILD) dist build docs/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
