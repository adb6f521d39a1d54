# What people run, and what CI runs. Everything is set up here: a machine with Debian 12, root and a
# Rust toolchain is enough. The engines' images are built from the package registries that apt, pip
# and cargo are configured for; no image is pulled.

RIG := tests/rig/rig
STATE := $(or $(RIG_STATE),/var/lib/sparkctl-rig)
# The demo keeps what an operator's machine remembers in here.
DEMO := target/demo
SPARKCTL := XDG_STATE_HOME=$(CURDIR)/$(DEMO) SPARKCTL_SSH_CONFIG=$(STATE)/ssh_config target/release/sparkctl
PROFILE := profiles/rig-vllm.yaml
QUESTION := What is the capital of France? Answer with one word.

.PHONY: bench help demo demo-down test test-fast lint rig rig-images

help:
	@echo "make demo       bring the rig up, deploy real vLLM on two nodes, ask it something"
	@echo "make demo-down  remove the rig, its images and its cache"
	@echo "make test       every test, the end-to-end ones on the rig included"
	@echo "make test-fast  the tests that need no rig"
	@echo "make lint       formatting and lints, as CI wants them"

demo: rig-images
	cargo build --release
	$(RIG) up
	$(RIG) load spark1 vllm
	$(RIG) model spark1
	$(SPARKCTL) deploy $(PROFILE)
	@echo
	curl -fsS --noproxy '*' http://10.77.0.11:30000/v1/chat/completions -H 'Content-Type: application/json' \
	  -d '{"model": "tiny", "messages": [{"role": "user", "content": "$(QUESTION)"}]}'
	@echo; echo
	$(SPARKCTL) status

demo-down:
	$(RIG) purge
	rm -rf $(DEMO)

rig-images:
	tests/rig/install
	$(RIG) build

rig: rig-images
	$(RIG) up

# Figures, and docs/benchmarks.md: the speed is measured here and never in a test.
bench: rig
	cargo build --release
	benches/run
	$(RIG) reset

lint:
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings

# Needs Python 3 and rsync on this machine, but no rig.
test-fast:
	python3 docker/stub-engine/test_stub.py
	python3 tests/hub/test_fetch.py
	cargo test --lib --bins --examples
	cargo test --test check --test cli --test deploy --test facts --test fetch --test fit --test gather --test import --test init \
	  --test native --test plan --test profiles --test repository

# The rig's tests take turns on one rig, so they run one after the other.
test: rig
	$(MAKE) test-fast
	cargo test --test rig -- --test-threads=1
	$(RIG) reset
