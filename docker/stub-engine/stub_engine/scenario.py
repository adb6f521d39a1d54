"""What the stub has been told to do, read from the STUB_* environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

STATES = (
    "ready", "hang", "oom", "worker-oom", "worker-crash", "slow", "wrong-model", "wrong-answer",
    "completions-hang", "no-reasoning", "no-tools",
)
MILESTONES = ("config", "rendezvous", "load", "kv", "graphs")
SLOW_SECONDS = 20.0


class ScenarioError(ValueError):
    """A setting that the stub doesn't know: a test with a spelling mistake must not pass as `ready`."""


@dataclass(frozen=True)
class Scenario:
    states: frozenset[str]
    crash_at: str | None
    load_seconds: float
    first_token_seconds: float
    token_seconds: float
    reasoning_field: str

    def __contains__(self, state: str) -> bool:
        return state in self.states

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ, default_reasoning_field: str = "reasoning") -> "Scenario":
        settings = {key: value for key, value in env.items() if key.startswith("STUB_")}
        states: set[str] = set()
        crash_at = None
        for item in filter(None, (part.strip() for part in settings.get("STUB_SCENARIO", "").split(","))):
            key, _, value = item.partition("=")
            if key.startswith("STUB_"):
                settings[key] = value
            elif key == "crash-at" and value in MILESTONES:
                crash_at = value
            elif item in STATES:
                states.add(item)
            else:
                raise ScenarioError(f"STUB_SCENARIO: unknown {item!r}; known: {', '.join(STATES)}, "
                                    f"crash-at={'|'.join(MILESTONES)}, STUB_NAME=VALUE")
        load = settings.get("STUB_LOAD_SECONDS") or (SLOW_SECONDS if "slow" in states else 1.0)
        return cls(
            states=frozenset(states),
            crash_at=crash_at,
            load_seconds=float(load),
            first_token_seconds=float(settings.get("STUB_FIRST_TOKEN_SECONDS") or 0.01),
            token_seconds=float(settings.get("STUB_TOKEN_SECONDS") or 0.001),
            reasoning_field=settings.get("STUB_REASONING_FIELD") or default_reasoning_field,
        )
