# Every target sets the checkout up first; a finished set-up costs a second.
HARNESS ?= claude-code
SEED ?= 0
TASKS ?= builtin
RUN ?= runs/demo$(if $(filter-out builtin,$(TASKS)),-$(TASKS))
HARNESSES := claude-code codex mini-swe-agent opencode openhands-sdk qwen-code
LEGO := .venv/bin/lego-rl
PYTEST := .venv/bin/python -m pytest

.PHONY: setup setup-verl setup-vllm setup-kubernetes demo demo-builtin demo-real test test-integration test-vllm test-long check bench warm-start clean

setup:
	@scripts/setup.sh claude-code

demo: demo-$(TASKS)

demo-builtin:
	@scripts/setup.sh $(HARNESS)
	$(LEGO) train recipes/demo-$(HARNESS).toml --set run.seed=$(SEED) --set run.dir=$(RUN)

# Tasks of real packages, fetched from the package index, and what the demo's policy makes of them.
demo-real:
	@scripts/setup.sh $(HARNESS)
	.venv/bin/python -m scripts.demo_real $(RUN) recipes/demo-$(HARNESS).toml

test: setup
	$(PYTEST) tests/unit

# Stock verl in an environment of its own, for the test that compares losses with it.
setup-verl: setup
	@scripts/setup_verl.sh

# Stock vLLM in an environment of its own: a server of policies on the CPU, and its tool-call parsers.
setup-vllm: setup
	@scripts/setup_vllm.sh

# A Kubernetes for the tests of its sandboxes, built once for this user.
setup-kubernetes:
	@scripts/setup_kubernetes.sh

test-integration:
	@scripts/setup.sh $(HARNESSES)
	@scripts/setup_verl.sh
	@scripts/setup_docker.sh
	$(PYTEST) tests/integration

# A real vLLM server on the CPU behind the gateway; prints how well engine and trainer agree.
test-vllm: setup-verl setup-vllm
	$(PYTEST) -s tests/vllm

test-long:
	@scripts/setup.sh $(HARNESSES)
	@scripts/setup_docker.sh
	@scripts/setup_kubernetes.sh
	$(if $(VLLM_PYTHON),,@scripts/setup_vllm.sh)
	$(PYTEST) -s tests/long $(if $(RUNS),--runs $(RUNS)) $(if $(SAMPLES),--samples $(SAMPLES)) \
		$(if $(SDISTS),--sdists $(SDISTS)) $(if $(VLLM_PYTHON),--vllm-python $(VLLM_PYTHON))

check: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

bench: setup
	$(LEGO) bench loop
	$(LEGO) bench capture
	$(LEGO) bench sandbox
	$(LEGO) bench tasks

warm-start:
	@scripts/setup.sh claude-code openhands-sdk
	.venv/bin/python -m warm_start.build

clean:
	rm -rf .venv .venv-vllm .cache build dist
