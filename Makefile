# A thin list of commands. Everything here is what a person with uv types; `make` only gets uv when it is missing.

UV_VERSION := 0.13.8
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
RUN := $(UV) run --locked

.DEFAULT_GOAL := help
.PHONY: help rehearse test lint types check synth clean uv

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1@\2/p' Makefile | while IFS=@ read -r left right; do printf '%-16s %s\n' "$$left" "$$right"; done

rehearse: uv ## the main job, on a local AWS: deploy, scale up, scale down, destroy
	$(RUN) rehearse $(ARGS)

test: uv ## the tests
	$(RUN) pytest $(ARGS)

lint: uv ## style, with ruff
	$(RUN) ruff check
	$(RUN) ruff format --check

types: uv ## types, with pyright in strict mode
	$(RUN) pyright

check: lint types test ## lint, types and test

synth: uv ## the CloudFormation templates, into cdk.out/
	$(RUN) cdk synth --quiet $(ARGS)

clean: ## remove what was made in this clone (the tools in the user's cache stay)
	rm -rf cdk.out node_modules .pytest_cache .ruff_cache .venv .uv

uv: $(UV)

# From PyPI, into this clone: with venv, else with pip alone (Debian's python3 may lack the one or the other).
.uv/bin/uv:
	@for python in python3.14 python3.13 python3.12 python3.11 python3; do \
	    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break; python=; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "make: Python 3.11 or newer is needed, and none was found on PATH (python3.14 ... python3.11, python3)." >&2; exit 1; \
	fi; \
	echo "Getting uv $(UV_VERSION) from PyPI into .uv/ (only once, with $$python)"; \
	rm -rf .uv; mkdir -p .uv/bin; \
	{ $$python -m venv .uv/venv && .uv/venv/bin/python -m pip install --retries 1 uv==$(UV_VERSION) && mv .uv/venv/bin/uv $@; } >.uv/log 2>&1 || \
	{ rm -rf .uv/venv; $$python -m pip install --retries 1 --target .uv/venv uv==$(UV_VERSION) && mv .uv/venv/bin/uv $@; } >>.uv/log 2>&1 || { \
	    tail -n 4 .uv/log >&2; \
	    echo "make: uv cannot be installed. Check the network and the proxy settings. If $$python says above that it has no" \
	        "venv or pip, install them (on Debian and Ubuntu: apt install python3-venv), or install uv yourself." >&2; \
	    exit 1; \
	}; \
	rm -rf .uv/venv .uv/log
