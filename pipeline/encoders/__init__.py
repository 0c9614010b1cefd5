"""Embedding models and the cross-encoder, and how they are run.

- `accelerated`: Runs the FP32 encoder on GPU/NPU in fixed-shape padded batches; caches the
  generated FP32 model file on disk; encoder wrapper that limits the batch size
- `base`: Encoder protocol and the ONNX Runtime encoder (MiniLM)
- `cross_encoder`: Cross-encoder inference: scores (query, commit message, file change) triples
- `cross_encoder_graph`: Builds the cross-encoder ONNX graph from bundled weights at load time
- `minilm_numpy`: NumPy reference implementation of MiniLM; outlier-channel detection for
  quantization
- `onnx_graph`: Transformer layers as ONNX nodes, without the `onnx` package; builds the FP32 ONNX
  graph from the quantized file; minimal protobuf reader/writer for ONNX files
- `providers`: Selects an ONNX Runtime execution provider and creates a session
- `quantization`: Dynamic int8 quantization of weights; encoder ONNX graph (needs `onnx` only to
  export)
- `registry`: Verifies the SHA-256 checksums of the bundled model files; returns the bundled encoder
  for a name
- `static`: Static word-embedding encoder (hashed vocabulary)
"""
