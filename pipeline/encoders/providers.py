"""Execution providers: what is asked for -> what this build can run, and a session that really runs on it."""

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

# Name on the command line -> name in ONNX Runtime.
RUNTIME_NAMES: Final = {
    CPU: "CPUExecutionProvider",
    COREML: "CoreMLExecutionProvider",
    CUDA: "CUDAExecutionProvider",
}

_OPTIONS: Final[dict[str, dict[str, str]]] = {
    COREML: {"ModelFormat": "MLProgram", "RequireStaticInputShapes": "1", "MLComputeUnits": "ALL"}
}
_INSTEAD: Final = "or embed with `--embed-provider cpu`."
# Both packages fill one folder, and whichever came last has overwritten parts of the other.
_HINTS: Final = {
    COREML: "CoreML comes with macOS builds of ONNX Runtime: there run "
    f"`pip install --force-reinstall --no-deps onnxruntime`, {_INSTEAD}",
    CUDA: "Run `pip install 'history-lineage[cuda]'`, then `pip uninstall --yes onnxruntime` and "
    f"`pip install --force-reinstall --no-deps onnxruntime-gpu` (the two packages fill one folder), {_INSTEAD}",
}


class ProviderUnavailable(LineageError):
    """Somebody asked for an execution provider that this build or this machine cannot run."""


def choose(wanted: str, *, cuda_devices: bool = False) -> str:
    """The provider to embed with, able to run or not; `cuda_devices` says whether the person named any.

    `auto` means cuda when devices are named, else coreml on a macOS build that has it, else cpu.
    """
    if wanted != AUTO:
        return wanted
    if cuda_devices:
        logger.info("CUDA_VISIBLE_DEVICES is set: embedding with cuda.")
        return CUDA
    return COREML if sys.platform == "darwin" and COREML in built_in() else CPU


def built_in() -> frozenset[str]:
    """The providers that the installed ONNX Runtime was built with."""
    there = runtime().get_available_providers()
    return frozenset(name for name, runtime_name in RUNTIME_NAMES.items() if runtime_name in there)


def runtime() -> ModuleType:
    """ONNX Runtime, silent: it would tell its maker of this machine, and keep a queue of what it could not send."""
    os.putenv("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    module: ModuleType = onnxruntime
    return module


def check(provider: str) -> None:
    """ProviderUnavailable unless this build has it; whether the machine does, only a session can tell."""
    if provider not in built_in():
        raise ProviderUnavailable(
            f"The installed ONNX Runtime was built without {provider}.", hint=_HINTS[provider]
        )


def session(provider: str, model: Path, *, sizes: Mapping[str, int]) -> InferenceSession:
    """A session of which every step runs on this provider; `sizes` fixes dimensions of the model by name."""
    check(provider)
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    for name, size in sizes.items():
        options.add_free_dimension_override_by_name(name, size)
    if provider != CPU:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    if provider == CUDA:
        _preload(ort)
    name = RUNTIME_NAMES[provider]
    try:
        opened: InferenceSession = ort.InferenceSession(
            model, options, providers=[(name, _OPTIONS.get(provider, {}))], enable_fallback=False
        )
    except Exception as error:  # the runtime's errors share no class of their own
        raise _cannot_run(provider, str(error)) from error
    if (first := opened.get_providers()[0]) != name:
        raise _cannot_run(provider, f"it chose {first}")
    return opened


def _preload(ort: ModuleType) -> None:
    """Find CUDA's libraries in the packages that the extra installs; what is printed belongs into the log."""
    with redirect_stdout(StringIO()) as said:
        ort.preload_dlls()
    if said.getvalue():
        logger.debug("%s", said.getvalue().rstrip())


def _cannot_run(provider: str, reason: str) -> ProviderUnavailable:
    first_line = (reason.splitlines() or ["no reason given"])[0]
    return ProviderUnavailable(
        f"ONNX Runtime cannot run the encoder on {provider}: {first_line:.300}", hint=_HINTS[provider]
    )
