"""The bundled encoder (`minilm.onnx`, `tokenizer.json`) and how it was made; NOTICE says whose it is.

`static.npz`, the static encoder's table, comes from `training`.

- `bert`: the model read plainly in numpy; finds the channels that quantization must spare
- `graph`: the model as an ONNX graph, quantized as it is written
- `unquantized`: the bundled file's weights as 32-bit floats, in a graph of steps that every provider has
- `keeping`: the unquantized encoder as a file, made once and looked over
- `wire`: ONNX files read and written
- `make`: the command that writes both files; needs `onnx`, the program does not
"""
