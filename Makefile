# A fresh machine needs Python 3.11 or later and the way to PyPI; everything is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv installs in a sixth of pip's time; pip where it cannot, as behind an index that pip's settings name.
INSTALL = install() { $(BIN)/uv pip install --quiet --python $(VENV) --editable "$$1" || \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable "$$1"; }; install
# XGBoost's Linux wheel carries GPU libraries of hundreds of megabytes; on macOS there are none, and no CPU edition.
XGBOOST := $(if $(filter Darwin,$(shell uname -s)),xgboost,xgboost-cpu)

EXPERIMENTS := bench bench-clusters bench-scale catboost clicks curvature defaults discount experiments istella judgements large \
	long-lists metrics mslr ohsumed parity peers selection serving smooth-dcg start within-query yahoo
.PHONY: help demo test matrix short versions golden api size check docs dist platform-wheel release-check picture faults kill-sweep io-sweep numerics \
	net fuzz mutation coverage test-clusters experiment clean $(EXPERIMENTS)

help:
	@sed -n 's/^\([a-z][a-z%-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18
	@echo "PYTHON=python3.12 chooses the interpreter (3.11 or later) that .venv is made from."

# No options for any tool. Few queries to learn from, as where people judge, and many; the same test queries.
DATA := demo/data
demo: $(VENV)/.installed ## generate data, train, and compare with LightGBM, averaged over folds too, and XGBoost
	@mkdir -p $(DATA)
	@$(BIN)/boostrank data make $(DATA) --queries 2000 --seed 1 2>&1 | grep rows
	@echo "training for half a minute or longer, and compiling boostrank's arithmetic once ..."
	@echo
	@$(BIN)/python -m experiments.defaults.demo $(DATA)/train.txt $(DATA)/valid.txt $(DATA)/test.txt --few 300 \
		--truth $(DATA)/test-relevance.txt --model demo/model.txt
	@echo "Each library has its own defaults. ± is half of a 95% interval over the test queries. \"Four LightGBMs\" are"
	@echo "LightGBM trained on four folds, with trees that suit, and averaged: you can build that without boostrank."
	@echo "On seven public sets, boostrank is 0.0169 [0.0045, 0.0298] above them: experiments/defaults/README.md."
	@echo
	@echo "The model of the last table is demo/model.txt, in LightGBM's own format. Next, with a file of your own"
	@echo "(label qid:ID number:value ..., or CSV):"
	@echo
	@echo "    . $(BIN)/activate"
	@echo "    boostrank train my-train.txt --model my-model.txt"
	@echo "    boostrank predict my-model.txt my-new.txt -o scores.txt"

# A file to a process: what a file's tests share is made once. More than two would compile the same kernels side by side.
test: $(VENV)/.installed-test ## run the tests
	$(BIN)/python -m pytest -n auto --maxprocesses 2 --dist loadfile

# Other interpreters and versions: an environment each, .venv-3.12 or .venv-oldest. TESTS chooses what to run.
PYTHONS ?= 3.11 3.12 3.13
OLDEST ?= 3.11
TESTS ?=
# What versions differ in, without the kernels that take minutes to compile.
SHORT := tests/core tests/model/test_xgboost.py tests/model/test_xgboost_dart.py tests/model/test_model_files.py \
	tests/fit/test_model.py tests/engines/test_private.py tests/kernels/test_private.py tests/cli/test_startup.py \
	-k 'not allocate or ranknet or shf-sdcg'
# The path of an interpreter, also where pyenv has it and does not show it; empty if there is none.
interpreter = $(or $(shell python$1 -c 'import sys; print(sys.executable)' 2>/dev/null),$(lastword \
	$(wildcard $(HOME)/.pyenv/versions/$1.*/bin/python$1)))

matrix: $(PYTHONS:%=test-%) ## the same on every interpreter of PYTHONS="3.11 3.12 3.13", with the newest versions

test-oldest: export NUMBA_CACHE_DIR := $(CURDIR)/$(VENV)-oldest/cache
# Otherwise make takes it for intermediate, and each run installs anew.
.PRECIOUS: $(VENV)-%/.installed-test
test-%: $(VENV)-%/.installed-test
	$(VENV)-$*/bin/python -m pytest $(TESTS)

# Spark and Ray are large: an environment of their own. Spark needs Java (openjdk-17-jre-headless).
test-clusters: $(VENV)/.installed
	$(BIN)/python -m venv $(VENV)-clusters
	$(VENV)-clusters/bin/pip install -q -e '.[clusters,xgboost-cpu,test]'
	$(VENV)-clusters/bin/python -m pytest tests/cluster

VERSIONS = $(BIN)/python -m qa.versions --uv $(BIN)/uv --folder $(VENV)-versions
versions: $(VENV)/.installed ## models of several versions of Python and the engines, each read by each; a table
	$(VERSIONS) $(foreach v,$(PYTHONS),--python $v=$(call interpreter,$v))

golden: $(VENV)/.installed-test ## what this version writes, kept for later versions to read: at each release
	rm -f tests/model/golden/*.dev*.tar.gz
	$(BIN)/python -m tests.model.golden.make

api: $(VENV)/.installed-test ## the list of public names, options and exit statuses, after a change of it on purpose
	$(BIN)/python -m tests.api

size: $(VENV)/.installed-test ## lines and files of the package, and how many places an option or an engine touches
	$(BIN)/python -m qa.size

short: $(VENV)/.installed ## a few of the tests on each of them that is installed and is not the default
	@for version in $(foreach v,$(PYTHONS),$(if $(call interpreter,$v),$v)); do \
		$(BIN)/python -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] == '$$version')" || continue; \
		echo "Python $$version, a short run:"; \
		$(MAKE) --no-print-directory test-$$version TESTS="$(SHORT)" || exit 1; \
	done

$(VENV)-oldest/.installed-test: pyproject.toml | $(VENV)/.installed
	$(BIN)/uv venv --quiet --clear --python "$(call interpreter,$(OLDEST))" $(VENV)-oldest
	$(BIN)/uv pip install --quiet --python $(VENV)-oldest --resolution lowest-direct --editable '.[$(XGBOOST),test]'
	@touch $@

$(VENV)-%/.installed-test: pyproject.toml | $(VENV)/.installed
	$(BIN)/uv venv --quiet --clear --python "$(call interpreter,$*)" $(VENV)-$*
	$(BIN)/uv pip install --quiet --python $(VENV)-$* --editable '.[$(XGBOOST),test]'
	@touch $@

check: $(VENV)/.installed-check ## ruff, mypy and the import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/plain.py

docs: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/.installed-docs ## the documentation, into site/: warnings are errors
	$(BIN)/mkdocs build --strict --quiet

PICTURE := demo/picture
picture: $(VENV)/.installed-report ## the picture of a report in README, docs/assets/report.png (needs Chromium)
	$(BIN)/boostrank data make $(PICTURE) --queries 600 --seed 1
	cd $(PICTURE) && $(CURDIR)/$(BIN)/boostrank train train.txt --valid valid.txt --model model.txt
	cd $(PICTURE) && $(CURDIR)/$(BIN)/boostrank report model.txt test.txt -o report.html
	chromium --headless --no-sandbox --hide-scrollbars --virtual-time-budget=8000 --window-size=1120,1130 \
		--force-device-scale-factor=0.75 --screenshot=docs/assets/report.png "file://$(CURDIR)/$(PICTURE)/report.html"

dist: $(VENV)/.installed-release ## the sdist, and the wheel from it, into dist/, as a package index takes them
	rm -rf build dist
	$(BIN)/pyproject-build . >/dev/null
	$(BIN)/twine check --strict dist/*

# XGBoost, which README compares with, and the SBOM of the last environment.
platform-wheel: $(VENV)/.installed ## the wheel of this platform and this Python, with machine code, into dist/
	$(BIN)/python -m qa.platform_wheel

release-check: dist platform-wheel ## what the workflow of a release does, on each of PYTHONS: look into both, install, run the first lines
	for python in $(foreach v,$(PYTHONS),$(or $(call interpreter,$v),python$v)); do \
		$$python -m qa.wheel build/environment $(XGBOOST) || exit; done
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
SAMPLE ?= 60
SEED ?= 1
mutation: $(VENV)/.installed-coverage ## small changes of kernels, objectives, metrics, reader and formats: how many do the tests notice (resumes)
	nice $(BIN)/python -m qa.mutation.score $(PARTS) --sample $(SAMPLE) --seed $(SEED)

coverage: $(VENV)/.installed-coverage ## lines and branches that the tests execute, compiled kernels as plain Python too (an hour; resumes)
	nice $(BIN)/python -m qa.coverage

# XGBoost's threads must not spin while they wait for other processes. Small matrix products need one core.
experiment $(EXPERIMENTS) demo: export OMP_WAIT_POLICY ?= passive
experiments smooth-dcg: export OPENBLAS_NUM_THREADS ?= 1
experiment: $(VENV)/.installed-peers $(VENV)/.installed-test ## NAME=peers ARGS="...": measurements; without NAME, list them
	$(BIN)/python -m experiments $(NAME) $(ARGS)

bench bench-clusters bench-scale catboost clicks curvature defaults discount experiments judgements large long-lists:
	@$(MAKE) --no-print-directory experiment NAME=$@
metrics ohsumed parity peers selection serving smooth-dcg start within-query:
	@$(MAKE) --no-print-directory experiment NAME=$@
mslr yahoo istella:
	@$(MAKE) --no-print-directory experiment NAME=$@ ARGS='"$(DATA)" $(if $(FOLDS),--folds $(FOLDS))'

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
