"""Stand-in for the vllm package: only its version."""

from stub_engine import VLLM_VERSION as __version__

__all__ = ["__version__"]
