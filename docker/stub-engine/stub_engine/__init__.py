"""A small stand-in for a vLLM image: Ray, `vllm serve` and its HTTP server, for tests only."""

VLLM_VERSION = "0.32.0"
RAY_VERSION = "2.60.0"
