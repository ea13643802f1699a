# make demo   - install tproper and its lab into .venv, and train on bundled digits with complementary labels
# make test   - the test suites of both, in some six minutes on two cores
# make test-rest - what it leaves out: figures kept in files, pages and releases, clusters of Ray, Triton's interpreter
# make check  - ruff and mypy
# make docs   - the site, into docs/_build/html; opens from the disk, warnings are errors
# make pages  - run the code of README and guides, and write what it prints and draws into them
# make bench  - the core's benchmarks, each beside a peer in one run
# make test-matrix - the suite on Python 3.12, 3.13 and on the lowest versions declared, with uv; ROWS="3.11-lowest 3.13" for some
# make dist   - wheels and sdists of both into dist/, built twice and compared; the wheels are tried in a fresh environment
# make api    - the list of public names, tests/releases/api.txt, written anew: when a version is released
# make mutate - small faults put into the code one at a time: which do the tests notice? MUTANTS=120 SEED=1 MINUTES=60
# make fuzz   - random cases against references and rules, for ten minutes; SEED=N ONLY=check CASES=1 runs one again
# make constraints - write constraints.txt anew from what is installed
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test test-rest check docs pages bench test-matrix dist api mutate fuzz constraints install clean

install: $(STAMP)

$(STAMP): pyproject.toml lab/pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "make: $(PYTHON) cannot make a virtual environment (Debian: apt install python3-venv)"; exit 1; }
	@echo "installing tproper, its lab and its tools into $(VENV) (a few minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]" -e "lab[ray]"
	@touch $@

demo: install
	@$(BIN)/tproper demo --out out/demo

test: install
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not kept"

test-rest: install
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or kept"

check: install
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

docs: install
	@OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q -d docs/_build/doctrees docs docs/_build/html
	@echo "the site: docs/_build/html/index.html"

pages: install
	@OMP_NUM_THREADS=1 $(BIN)/python docs/pages.py
	@$(BIN)/python docs/generate.py

bench: install
	@$(BIN)/python benchmarks/losses_cpu.py

test-matrix:
	@tools/matrix.sh $(ROWS)

dist: install
	@$(BIN)/python tools/dist.py --out dist
	@OMP_NUM_THREADS=1 $(BIN)/python tools/try_wheels.py dist --borrow

api: install
	@$(BIN)/python tools/api.py --write

mutate: install
	@$(BIN)/python tools/mutate.py --mutants $(or $(MUTANTS),120) --minutes $(or $(MINUTES),120) $(if $(SEED),--seed $(SEED))

fuzz: install
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS_OF_FUZZ),600) \
	  $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) $(if $(CASES),--cases $(CASES))

constraints: install
	@$(BIN)/python tools/constraints.py --write

clean:
	rm -rf $(VENV) .matrix out build dist .pytest_cache .mypy_cache .ruff_cache
