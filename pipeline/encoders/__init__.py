"""Embedding models and the cross-encoder, run with ONNX Runtime and NumPy.

- `base`: Encoder protocols; int8 MiniLM encoder and query encoder on the CPU; creation of bundled encoders; checksums
  of model files
- `cross_encoder`: bundled cross-encoder, which scores how well a change answers a question
- `minilm`: MiniLM in NumPy, as a reference; int8 quantization; builder of the int8 ONNX graph, for the export
- `onnx_file`: reader and writer of ONNX files
- `onnx_graph`: builders of the ONNX graphs of the FP32 model and the cross-encoder; lookup of token embeddings
- `providers`: choice of an ONNX Runtime execution provider, and the FP32 encoder for GPUs and NPUs
- `static`: static encoder, a table of word vectors
"""
