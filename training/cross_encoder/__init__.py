"""How the cross-encoder was made; nothing that runs imports it.

    pip install 'history-lineage[training]'
    python -m training.cross_encoder.train LISTS OUT --held-out NAME...    listwise training
    python -m training.cross_encoder.bundle OUT    the file that ships

LISTS is what `training.lists.mine` wrote.
What ships was trained for 56 minutes with seed 1 and then, `--onto` that, for 65 with `--rate 1e-4 --seed 2`, on two
cores: 113,000 lists.

- `batches`: lists -> padded tokens
- `model`: the network, begun with the encoder's own layers
- `naming`: a network's tensors by the names that the file has
- `train`: the training
- `bundle`: the trained network -> the file that ships
"""
