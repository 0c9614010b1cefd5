"""ONNX Runtime execution providers: choice of a provider, and sessions that run on it alone."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from types import ModuleType
from typing import TYPE_CHECKING, Final

from stores.errors import LineageError

if TYPE_CHECKING:
    from pathlib import Path

    from onnxruntime import InferenceSession

logger = logging.getLogger(__name__)

AUTO: Final = "auto"
CPU: Final = "cpu"
COREML: Final = "coreml"
CUDA: Final = "cuda"

# ONNX Runtime's name of each provider, by its name on the command line.
RUNTIME_NAMES: Final = {
    CPU: "CPUExecutionProvider",
    COREML: "CoreMLExecutionProvider",
    CUDA: "CUDAExecutionProvider",
}

_PROVIDER_OPTIONS: Final[dict[str, dict[str, str]]] = {
    COREML: {"ModelFormat": "MLProgram", "RequireStaticInputShapes": "1", "MLComputeUnits": "ALL"}
}
_CPU_ALTERNATIVE: Final = "or embed with `--embed-provider cpu`."
# onnxruntime and onnxruntime-gpu install into one directory, and the last one installed overwrites the other.
_HINTS: Final = {
    COREML: "CoreML comes with macOS builds of ONNX Runtime: there run "
    f"`pip install --force-reinstall --no-deps onnxruntime`, {_CPU_ALTERNATIVE}",
    CUDA: "Run `pip install 'history-lineage[cuda]'`, then `pip uninstall --yes onnxruntime` and "
    "`pip install --force-reinstall --no-deps onnxruntime-gpu` (the two packages share one directory), "
    f"{_CPU_ALTERNATIVE}",
}


class ProviderUnavailable(LineageError):
    """The requested execution provider does not run in this build or on this machine."""


def choose_provider(requested: str, *, has_cuda_devices: bool = False) -> str:
    """Return the provider to embed with, without checking that it runs.

    `auto` means cuda if CUDA_VISIBLE_DEVICES names devices (`has_cuda_devices`), else coreml on a macOS build that has
    it, else cpu.
    """
    if requested != AUTO:
        return requested
    if has_cuda_devices:
        logger.info("CUDA_VISIBLE_DEVICES is set: embedding with cuda.")
        return CUDA
    return COREML if sys.platform == "darwin" and COREML in list_built_in_providers() else CPU


def list_built_in_providers() -> frozenset[str]:
    """Return the providers that the installed ONNX Runtime was built with."""
    available = load_runtime().get_available_providers()
    return frozenset(name for name, runtime_name in RUNTIME_NAMES.items() if runtime_name in available)


def load_runtime() -> ModuleType:
    """Import ONNX Runtime with its telemetry off.

    The telemetry sends data about this machine, and stores on disk what it cannot send.
    """
    os.putenv("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    module: ModuleType = onnxruntime
    return module


def check_built_in(provider: str) -> None:
    """Raise ProviderUnavailable unless this build has the provider. Only a session shows that the machine has it."""
    if provider not in list_built_in_providers():
        raise ProviderUnavailable(
            f"The installed ONNX Runtime was built without {provider}.", hint=_HINTS[provider]
        )


def create_session(provider: str, model: Path, *, dimensions: Mapping[str, int]) -> InferenceSession:
    """Create a session that runs every step on this provider; raise ProviderUnavailable if it cannot.

    `dimensions`: sizes for dynamic dimensions of the model, by name.
    """
    check_built_in(provider)
    ort = load_runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    for name, size in dimensions.items():
        options.add_free_dimension_override_by_name(name, size)
    if provider != CPU:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    if provider == CUDA:
        _preload_cuda_libraries(ort)
    runtime_name = RUNTIME_NAMES[provider]
    try:
        session: InferenceSession = ort.InferenceSession(
            model,
            options,
            providers=[(runtime_name, _PROVIDER_OPTIONS.get(provider, {}))],
            enable_fallback=False,
        )
    except Exception as error:  # the runtime's errors have no common base class
        raise _build_unavailable_error(provider, str(error)) from error
    # Without this check a provider that the session left out would go unnoticed.
    if (chosen_name := session.get_providers()[0]) != runtime_name:
        raise _build_unavailable_error(provider, f"it chose {chosen_name}")
    return session


def _preload_cuda_libraries(ort: ModuleType) -> None:
    """Load CUDA's libraries from the packages that the `cuda` extra installs; log what the runtime prints."""
    with redirect_stdout(StringIO()) as output:
        ort.preload_dlls()
    if output.getvalue():
        logger.debug("%s", output.getvalue().rstrip())


def _build_unavailable_error(provider: str, reason: str) -> ProviderUnavailable:
    first_line = (reason.splitlines() or ["no reason given"])[0]
    return ProviderUnavailable(
        f"ONNX Runtime cannot run the encoder on {provider}: {first_line:.300}", hint=_HINTS[provider]
    )
