"""Embedding models and the cross-encoder, run with ONNX Runtime and NumPy.

- `base`: Encoder protocol; int8 MiniLM encoder on the CPU; bundled encoders by name, checksums of the model files
- `cross_encoder`: bundled cross-encoder, which scores a question with a message and a change
- `cross_encoder_graph`: weights and ONNX graph of the cross-encoder
- `minilm`: NumPy reference implementation of MiniLM, outlier channels, quantization and int8 graph for the export
- `onnx_graph`: reader and writer of ONNX files; builder of transformer layers as an ONNX graph, and of the FP32 model
- `providers`: choice of an ONNX Runtime execution provider, and the FP32 encoder for GPUs and NPUs
- `static`: static encoder, a table of word vectors
"""
