"""A small stand-in for images of vLLM and SGLang: Ray, their servers and HTTP endpoints, for tests only."""

VLLM_VERSION = "0.32.0"
SGLANG_VERSION = "0.5.23"
RAY_VERSION = "2.60.0"
