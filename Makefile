# Each of these works on a fresh machine with Python 3.11.4 or later: it makes a virtual environment and installs the pins.
VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check types quick-tests faults bench docs format clean

demo: $(VENV)/.demo  ## the main job, with no more than it needs
	$(BIN)/pucl compare simclr digits --corrections untrained,plain,pucl,auto,oracle --seeds 3 --workers 2 --out demo

test: $(READY)  ## everything that must hold
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --durations=15

check: $(READY)  ## the quick part of it, for every commit
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(MAKE) --jobs=2 --output-sync=target types quick-tests

types: $(READY)
	$(BIN)/mypy

quick-tests: $(READY)
	$(BIN)/pytest -q -n 2 -m "not slow"

faults: $(READY)  ## kills, full disks, damaged and hostile files, for a quarter of an hour; FAULTS="--minutes 90 --seed 7"
	$(BIN)/python -m faults $(FAULTS)

bench: $(READY)  ## time and memory of the losses; `python -m benchmarks --help` lists the other benchmarks
	$(BIN)/python -m benchmarks loss

docs: $(READY)  ## the documentation as a site, in site/: no broken link, every public name explained
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

format: $(READY)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# All versions are pinned. On Linux the usual build of torch brings CUDA, which is gigabytes; where a smaller one is
# wanted, install it into the virtual environment first.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]'
	touch $@

$(VENV)/.demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[images,plot]'
	touch $@

clean:
	rm -rf $(VENV) demo site
