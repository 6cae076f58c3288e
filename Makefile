# `make help` lists the targets. Paths are relative, so that the checkout may lie in a folder with spaces.
PYTHON ?= /usr/bin/python3
export PYTHON
# Many tests wait for cameras and processes: one more than there are processors keeps these busy.
PROCESSES ?= $(shell echo $$(($$(nproc) + 1)))

.DEFAULT_GOAL := help
.PHONY: help setup run test lint bench install uninstall clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

setup: ## install system packages and the project into .venv (also done by run and test)
	@sh tests/harness/setup.sh run

run: setup ## anonymise a sample from an RTSP camera on this machine into out/
	@.venv/bin/python -m tests.harness.first_run

setup-test:
	@sh tests/harness/setup.sh test

lint: setup-test ## ruff and mypy
	@.venv/bin/ruff check .
	@.venv/bin/mypy

test: lint ## ruff, mypy and all tests; PYTEST_ARGS="-k words" for some of them
	@.venv/bin/python -m pytest -n $(PROCESSES) --dist worksteal $(PYTEST_ARGS)

bench: setup-test ## speed and memory on this machine, beside deface
	@.venv/bin/python -m tests.bench.speed

install: ## as a service: PREFIX=/opt/edge DESTDIR= EXTRAS=jetson (see systemd/install.sh)
	@sh systemd/install.sh install

uninstall: ## remove what install brought; configuration and recordings stay
	@sh systemd/install.sh uninstall

clean: ## remove .venv, caches and built files; results in out/ stay
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
