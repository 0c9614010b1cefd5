"""Embedding models and the cross-encoder, run with ONNX Runtime and NumPy.

- `accelerated`: FP32 encoder on GPUs and NPUs; wrapper that limits the batch size
- `base`: Encoder protocol; int8 MiniLM encoder on the CPU
- `cross_encoder`: bundled cross-encoder, which scores a question with a commit message and a change
- `cross_encoder_graph`: builder of the ONNX graph of the cross-encoder from the bundled weights
- `minilm_numpy`: NumPy reference implementation of MiniLM; outlier channels for quantization
- `onnx_file`: minimal reader and writer of ONNX files
- `onnx_graph`: builder of transformer layers as an ONNX graph, and of the FP32 model
- `providers`: choice of an ONNX Runtime execution provider, and sessions on it
- `quantization`: builder of the int8 encoder graph with the `onnx` package, for the export only
- `registry`: bundled encoders by name, and checksums of the bundled model files
- `static`: static encoder, a table of word vectors
"""
