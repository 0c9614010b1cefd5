"""The bundled encoder (`minilm.onnx`, `tokenizer.json`) and how it was made; NOTICE says whose it is.

What its weights learnt, `static.npz`, the static encoder's table, and `cross.npz`, the cross-encoder's weights, come
from `training`.

- `bert`: the model read plainly in numpy; finds the channels that quantization must spare
- `graph`: the model as an ONNX graph, quantized as it is written
- `cross`: the cross-encoder as an ONNX graph, made when it is loaded
- `steps`: a transformer's layers in such a graph
- `unquantized`: the bundled file's weights as 32-bit floats, in a graph of steps that every provider has
- `keeping`: the unquantized encoder as a file, made once and looked over
- `wire`: ONNX files read and written
- `make`: writes the tokenizer, and the graph of weights it is given; needs `onnx`, the program does not
"""
