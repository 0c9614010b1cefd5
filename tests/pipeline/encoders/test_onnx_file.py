"""Reader and writer of ONNX files."""

from __future__ import annotations

import numpy as np
import onnxruntime

from pipeline.encoders.base import MODELS_DIR
from pipeline.encoders.onnx_file import Node, read_constants, serialize_model


def test_onnx_files_are_read_and_written() -> None:
    """Tensors of the bundled file have their shapes and types; a written model reads back and runs."""
    tensors = read_constants((MODELS_DIR / "minilm.onnx").read_bytes())
    assert tensors["words"].shape == (30_522, 384) and tensors["positions"].dtype == np.float32
    double = np.array([[2.0, 0.5], [-1.0, 3.0]], np.float32)
    node = Node("MatMul", ("x", "double"), "y", {})
    model = serialize_model(
        "tiny", [node], {"double": double}, inputs={"x": ("n", 2)}, outputs={"y": ("n", 2)}, opset=17
    )
    assert (read_constants(model)["double"] == double).all()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    x = np.array([[1.0, 1.0]], np.float32)
    assert session.run(None, {"x": x})[0].tolist() == (x @ double).tolist()
