# Sets up, serves, tests and checks; needs Python 3.11.5 to 3.13 (with its headers), a C compiler and make.
#
#   make serve     set up and serve on 127.0.0.1:8080
#   make test      set up and test
#   make help      list everything else

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell sh .ci/python)
RUNS := $(VENV)/.runs
RAY := $(VENV)/ray
READY := $(VENV)/.ready
# durable-rules calls a function that CPython 3.13 removed; this names its replacement. Harmless on other versions.
export CPPFLAGS += -DPyEval_CallObject=PyObject_CallObject
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

# Only the packages of the service.
$(RUNS): pyproject.toml requirements/build.lock requirements/run.lock
	@test -n "$(PYTHON)" && test -n "$$(sh .ci/python $(PYTHON))" || { echo "found no working Python 3.11 (from 3.11.5 on), 3.12 or 3.13; name one: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON): downloading $$(grep -c == requirements/run.lock) packages and compiling the rule engine, about a minute"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet --require-hashes -r requirements/build.lock
	@$(BIN)/pip install --quiet --require-hashes --no-build-isolation -r requirements/run.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# With the packages for tests and checks.
$(READY): $(RUNS) requirements/dev.lock
	@echo "adding the packages for tests and checks to $(VENV): $$(grep -c == requirements/dev.lock) in all, about a minute"
	@$(BIN)/pip install --quiet --require-hashes --no-deps --no-build-isolation -r requirements/dev.lock
	@touch $@

setup: $(READY) ## create the virtual environment, with all packages pinned

serve: $(RUNS) ## serve on 127.0.0.1:8080; ARGS="--port 9000" for another port
	$(BIN)/runner-policy serve $(ARGS)

test: $(READY) ## run the tests except the slow ones; needs no network once set up
	$(BIN)/pytest -m "not slow" $(ARGS)

test-slow: $(READY) ## run the slow tests: proofs, mutants, fuzzed requests, wheels of vLLM, counted instructions (needs valgrind)
	$(BIN)/pytest -m slow --hypothesis-profile full $(ARGS)

test-all: $(READY) ## run all tests; ARGS="tests/FILE::TEST" for one, slow or not
	$(BIN)/pytest --hypothesis-profile full $(ARGS)

check: $(READY) ## check format, lint, types, imports, workflows, regular expressions (needs valgrind), rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/zizmor --offline --no-progress --quiet --persona pedantic .github action.yml
	$(BIN)/pytest -q -n 2 tests/hostile/test_patterns.py
	$(BIN)/runner-policy rules check
	$(BIN)/runner-policy rules test

coverage: $(READY) ## run all tests with branch coverage of policy/ and service/
	$(BIN)/pytest --hypothesis-profile full --cov --cov-report=term-missing:skip-covered $(ARGS)

sbom: $(READY) ## write the software bill of materials of the service (CycloneDX) to build/sbom.cdx.json
	$(BIN)/python .ci/sbom.py --locked-only $(VENV) build/sbom.cdx.json

audit: $(READY) ## look for known vulnerabilities of the locked packages; "Error 1": found one, "Error 3": no source could be queried
	$(BIN)/python .ci/audit.py

generate: $(READY) ## write the files generated from the vocabulary and the rule language: schemas, docs/facts.md, docs/language.md, the index of docs/design.md
	$(BIN)/python -m policy.cli.generate

tables: $(READY) ## regenerate the model tables from the wheels of every release (downloads 10 GB)
	$(BIN)/python -m policy.vllm.tablegen.make all

lock: $(READY) ## write the lock files, from pyproject.toml and requirements/*.in; needs uv
	for extra in dev bench; do uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --extra $$extra pyproject.toml -o requirements/$$extra.lock; done
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml -o requirements/run.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --constraint requirements/dev.lock --extra ray pyproject.toml -o requirements/ray.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate requirements/build.in -o requirements/build.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --constraint requirements/dev.lock requirements/sbom.in -o requirements/sbom.lock

bench: $(READY) ## run the benchmark; writes bench/results.md, and fails if a requirement there is missed
	$(BIN)/pip install --quiet --require-hashes -r requirements/bench.lock
	$(BIN)/python -m bench $(ARGS)

verify: $(READY) ## compare the upstream layer with the code of every vLLM release (downloads 10 GB once)
	$(BIN)/runner-policy verify all $(ARGS)

verify-mutants: $(READY) ## check that verify finds an error in each deciding rule of the upstream layer (downloads 10 GB once)
	MUTATED_RELEASES="$$($(BIN)/python -c 'import yaml; print(*yaml.safe_load(open("rules/releases.yaml"))["known"])')" \
		$(BIN)/pytest -n 0 tests/verify/test_vllm.py -k 'error' $(ARGS)

fuzz-deployments: $(READY) ## compare random deployments with vLLM in ENVIRONMENTS and count the differences (bench/unseen/)
	$(BIN)/python -m bench.unseen $(ENVIRONMENTS) $(ARGS)

image-install: ## the image's first step: install the service and its rules in $(IMAGE)
	@test -n "$(IMAGE)" || { echo "IMAGE is not set: make $@ IMAGE=/app" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(IMAGE)
	$(IMAGE)/bin/pip install --quiet --no-cache-dir --require-hashes -r requirements/build.lock
	$(IMAGE)/bin/pip install --quiet --no-cache-dir --require-hashes --no-build-isolation -r requirements/run.lock
	$(IMAGE)/bin/pip install --quiet --no-cache-dir --no-deps --no-build-isolation .
	$(IMAGE)/bin/pip uninstall --quiet --yes editables hatchling pathspec pluggy setuptools tomlkit trove-classifiers wheel
	cp -R rules $(IMAGE)/rules

image-check: ## the image's second step: check its rules; an image with invalid rules is not built
	$(IMAGE)/bin/runner-policy rules check $(IMAGE)/rules
	$(IMAGE)/bin/runner-policy rules test $(IMAGE)/rules

image-sbom: ## the image's third step: write its bill of materials, with a tool that is not kept in it
	@test -n "$(IMAGE)" || { echo "IMAGE is not set: make $@ IMAGE=/app" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(IMAGE)-sbom
	$(IMAGE)-sbom/bin/pip install --quiet --no-cache-dir --only-binary :all: --require-hashes -r requirements/sbom.lock
	$(IMAGE)-sbom/bin/python .ci/sbom.py $(IMAGE) $(IMAGE)/sbom.cdx.json
	rm -rf $(IMAGE)-sbom

image-steps: $(READY) ## run the Dockerfile's steps without Docker, in an empty folder, and its health check
	sh .ci/image

# With Ray, beside the packages of $(VENV).
$(RAY)/.ready: $(READY) requirements/ray.lock
	@echo "adding Ray in $(RAY): a download of 200 MB"
	@$(BIN)/python -m venv --clear $(RAY)
	@$(RAY)/bin/python -c 'import sys, sysconfig, pathlib; pathlib.Path(sysconfig.get_path("purelib"), "base.pth").write_text(f"import site; site.addsitedir({sys.argv[1]!r})\n")' \
		"$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
	@$(RAY)/bin/pip install --quiet --require-hashes --no-deps -r requirements/ray.lock
	@touch $@

test-ray: $(RAY)/.ready ## test `impact --ray` on a Ray cluster of two workers on this machine
	$(RAY)/bin/python -m pytest -n 0 tests/cli/test_impact_ray.py $(ARGS)

test-pythons: $(READY) ## run the tests on each other installed Python from 3.11 to 3.13
	@own=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	sh .ci/python --all | while read -r python; do \
		minor=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		if [ "$$minor" = "$$own" ]; then echo "== Python $$minor is the one in $(VENV)"; continue; fi; \
		echo "== Python $$minor ($$python)"; \
		$(MAKE) --no-print-directory test-all VENV=.venv-$$minor PYTHON=$$python ARGS="$(ARGS)" </dev/null || exit 1; \
	done

cluster: $(READY) ## test admission with a real API server: KUBEBUILDER_ASSETS names a folder with kube-apiserver and etcd
	@test -n "$(KUBEBUILDER_ASSETS)" || { echo "KUBEBUILDER_ASSETS is not set: make $@ KUBEBUILDER_ASSETS=/usr/local/kubebuilder/bin" >&2; exit 1; }
	KUBEBUILDER_ASSETS="$(KUBEBUILDER_ASSETS)" $(BIN)/pytest -n 0 tests/cluster $(ARGS)

reliability: $(READY) ## test under load: changing rules, killed processes, unavailable stores, slow clients (forty minutes; `disk` needs root)
	for check in "load" "reloads" "inforce" "kill" "restarts" "database" "disk" "slow" "hostile"; do $(BIN)/python -m bench.reliability $$check || exit 1; done

schemathesis: $(READY) ## run schemathesis with many examples of each operation
	SCHEMATHESIS_EXAMPLES=500 $(BIN)/pytest -n 0 tests/api/test_schemathesis.py $(ARGS)

bench-smoke: $(READY) ## run a short version of the benchmark, without checking requirements
	$(BIN)/pip install --quiet --require-hashes -r requirements/bench.lock
	$(BIN)/python -m bench --quick

.PHONY: help setup serve test test-slow test-all check coverage sbom audit generate tables lock bench image-install image-check image-sbom image-steps test-pythons test-ray bench-smoke fuzz-deployments verify verify-mutants cluster reliability schemathesis
