"""Stand-in for the sglang package: its server, and its version."""

from stub_engine import SGLANG_VERSION as __version__

__all__ = ["__version__"]
