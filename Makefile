# A fresh machine needs Python 3.11 or later and the way to PyPI; everything is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv installs in a sixth of pip's time; pip where it cannot, as behind an index that pip's settings name.
INSTALL = install() { $(BIN)/uv pip install --quiet --python $(VENV) --editable "$$1" || \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable "$$1"; }; install
# XGBoost's Linux wheel carries GPU libraries of hundreds of megabytes; on macOS there are none, and no CPU edition.
XGBOOST := $(if $(filter Darwin,$(shell uname -s)),xgboost,xgboost-cpu)
# Other interpreters, each with an environment of its own, .venv-3.12; TESTS chooses what to run there.
PYTHONS ?= 3.11 3.12 3.13
MATRIX = $(BIN)/python -m qa.matrix --uv $(BIN)/uv

.PHONY: help demo test matrix short versions golden api size check docs picture dist platform-wheel \
	release-check faults kill-sweep io-sweep numerics net fuzz mutation coverage experiment clean

help:
	@sed -n 's/^\([a-z][a-z%-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
	@echo "PYTHON=python3.12 chooses the interpreter (3.11 or later) that .venv is made from."

demo: $(VENV)/.installed ## generate data, train, and compare with LightGBM, averaged over folds too, and XGBoost
	@$(BIN)/python -m experiments demo

# A file to a process: what its tests share is made once. More than two would compile the same kernels side by side. In the order
# of folders: files of few tests, which xdist would put last, take longest.
test: $(VENV)/.installed-test ## run the tests
	$(BIN)/python -m pytest -n auto --maxprocesses 2 --dist loadfile --no-loadscope-reorder

matrix: $(VENV)/.installed ## the same on every interpreter of PYTHONS="3.11 3.12 3.13", with the newest versions
	$(MATRIX) --tests='$(subst ','\'',$(TESTS))' $(PYTHONS)

short: $(VENV)/.installed ## a few of the tests on each of them that is installed and is not the default
	@$(MATRIX) --short $(PYTHONS)

test-%: $(VENV)/.installed ## the tests on one of them; test-oldest, with the oldest versions; test-clusters, with Spark and Ray
	$(MATRIX) --tests='$(subst ','\'',$(TESTS))' $*

versions: $(VENV)/.installed ## models of several versions of Python and the engines, each read by each; a table
	$(BIN)/python -m qa.versions --uv $(BIN)/uv --folder $(VENV)-versions

golden: $(VENV)/.installed-test ## what this version writes, kept for later versions to read: at each release
	rm -f tests/model/golden/*.dev*.tar.gz
	$(BIN)/python -m tests.model.golden.make

api: $(VENV)/.installed-test ## the list of public names, options and exit statuses, after a change of it on purpose
	$(BIN)/python -m tests.api

size: $(VENV)/.installed-test ## lines and files of the package, and how many places an option or an engine touches
	$(BIN)/python -m qa.size

check: $(VENV)/.installed-check ## ruff, mypy and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/plain.py

docs: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/.installed-docs ## the documentation, into site/: warnings are errors
	$(BIN)/mkdocs build --strict --quiet

picture: $(VENV)/.installed-report ## the picture of a report in README, docs/assets/report.png (needs Chromium)
	$(BIN)/python docs/_generate/screenshot.py

dist: $(VENV)/.installed-release ## the sdist, and the wheel from it, into dist/, as a package index takes them
	rm -rf build dist
	$(BIN)/pyproject-build . >/dev/null
	$(BIN)/twine check --strict dist/*

platform-wheel: $(VENV)/.installed ## the wheel of this platform and this Python, with machine code, into dist/
	$(BIN)/python -m qa.platform_wheel

# XGBoost, which README compares with, and the SBOM of the last environment.
release-check: dist platform-wheel ## what the workflow of a release does, on each of PYTHONS: look into both, install, run the first lines
	for python in $$($(MATRIX) --path $(PYTHONS)); do $$python -m qa.wheel build/environment $(XGBOOST) || exit; done
	$(BIN)/cyclonedx-py environment build/environment/bin/python --pyproject pyproject.toml -o build/boostrank.cdx.json

faults: $(VENV)/.installed-test ## the tests of every fault and bad input that is listed, and the page that says which hold
	$(BIN)/python -m qa.faults --out faults.md

kill-sweep: $(VENV)/.installed-test ## kill trainings 200 times, resume them, compare their files
	$(BIN)/python -m qa.kill_sweep 200

io-sweep: $(VENV)/.installed-test ## let every write, sync, rename, open and read of the commands fail in turn, see that nothing is lost
	$(BIN)/python -m qa.io_sweep

numerics: $(VENV)/.installed-test ## objectives against 390 digits at scores of any size, lists of a million documents, forms of a file
	nice $(BIN)/python -m qa.numerics --out numerics.md

# CASES, all unless named; DUMP=DIR writes every output there, so that two versions of the code can be diffed.
net: $(VENV)/.installed-test ## small trainings and commands by every route, compared with the hashes of what they gave; WRITE=1 keeps new ones
	$(BIN)/python -m qa.net $(CASES) $(if $(DUMP),--dump $(DUMP)) $(if $(WRITE),--write)

# atheris guides it where it can be installed; without it cases are drawn at random.
SECONDS ?= 600
fuzz: $(VENV)/.installed-test ## made and damaged input of every kind, for SECONDS=600; what breaks is kept in qa/fuzz/corpus
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	nice $(BIN)/python -m qa.fuzz --seconds $(SECONDS) $(TARGETS)

# PARTS, all unless named: kernels objectives metrics libsvm formats. SAMPLE mutants of each, 0 for all.
mutation: $(VENV)/.installed-coverage ## small changes of kernels, objectives, metrics, reader and formats: how many do the tests notice (resumes)
	nice $(BIN)/python -m qa.mutation.score $(PARTS) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED))

coverage: $(VENV)/.installed-coverage ## lines and branches that the tests execute, compiled kernels as plain Python too (an hour; resumes)
	nice $(BIN)/python -m qa.coverage

experiment: $(VENV)/.installed $(if $(NAME),$(VENV)/.installed-peers $(VENV)/.installed-test) ## NAME=peers ARGS="...": measurements; without NAME, list them
	$(BIN)/python -m experiments $(NAME) $(ARGS)

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "boostrank needs Python 3.11 or later; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing boostrank and what it needs into $(VENV) ..."
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(INSTALL) '.[$(XGBOOST),report,sklearn,tables]'
	@touch $@

$(VENV)/.installed-%: $(VENV)/.installed
	$(INSTALL) '.[$*]'
	@touch $@

clean: ## remove .venv, the demo's output and caches
	rm -rf $(VENV) $(VENV)-* demo site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
