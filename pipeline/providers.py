"""Execution providers: what a person asks for -> what this build can run."""

from __future__ import annotations

from typing import Final

from stores.errors import LineageError

AUTO: Final = "auto"
CPU: Final = "cpu"

# Name on the command line -> name in ONNX Runtime. CoreML and CUDA take their places here.
RUNTIME_NAMES: Final = {CPU: "CPUExecutionProvider"}


class ProviderUnavailable(LineageError):
    """Somebody asked for an execution provider that this build does not have."""


def choose(wanted: str) -> str:
    """The provider to embed with; `auto` is the fastest there is."""
    if wanted == AUTO:
        return CPU
    if wanted not in RUNTIME_NAMES:
        raise ProviderUnavailable(
            f"This build cannot embed with {wanted!r}.",
            hint=f"Available here: {', '.join((AUTO, *RUNTIME_NAMES))}.",
        )
    return wanted


def runtime_names(provider: str) -> list[str]:
    """The provider list ONNX Runtime takes; the CPU is always the last resort."""
    return list(dict.fromkeys((RUNTIME_NAMES[choose(provider)], RUNTIME_NAMES[CPU])))
