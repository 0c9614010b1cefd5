"""How the cross-encoder was made; nothing that runs imports it.

    pip install 'history-lineage[training]'
    python -m training.cross_encoder.train LISTS OUT --held-out NAME...    listwise training
    python -m training.cross_encoder.bundle OUT    the file that ships

LISTS is what `training.lists.mine` wrote.
What ships was trained on two cores, each time `--onto` what was there: for 56 minutes with seed 1, for 65 with
`--rate 1e-4 --seed 2`, 113,000 lists in all; and for 40 with `--rate 6e-5 --seed 3`, 20,000 lists, once `mine` asked
the titles of merges too.

- `batches`: lists -> padded tokens
- `model`: the network, begun with the encoder's own layers
- `naming`: a network's tensors by the names that the file has
- `train`: the training
- `bundle`: the trained network -> the file that ships
"""
