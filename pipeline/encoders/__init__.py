"""Embedding models and the cross-encoder, run with ONNX Runtime and NumPy.

- `base`: Encoder protocol, the int8 MiniLM encoder on the CPU, bundled encoders by name, and checksums of model files
- `cross_encoder`: bundled cross-encoder, which scores how well a change answers a question
- `minilm`: MiniLM for the export: reference implementation in NumPy, quantization, and the int8 ONNX graph
- `onnx_file`: reader and writer of ONNX files
- `onnx_graph`: builder of transformer layers, of the FP32 model and of the cross-encoder; token embeddings
- `providers`: choice of an ONNX Runtime execution provider, and the FP32 encoder for GPUs and NPUs
- `static`: static encoder, a table of word vectors
"""
