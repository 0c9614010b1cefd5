"""How the cross-encoder was made; nothing that runs imports it.

    pip install 'history-lineage[training]'
    python -m training.cross_encoder.mine LISTS REPOSITORY...    histories -> questions and candidates
    python -m training.cross_encoder.train LISTS OUT --held-out NAME...    listwise training
    python -m training.cross_encoder.bundle OUT    the file that ships

`histories.txt` names the repositories. LISTS holds tokens of texts and never ships; neither does anything else of it.
What ships was trained for 56 minutes with seed 1 and then, `--onto` that, for 65 with `--rate 1e-4 --seed 2`, on two
cores: 113,000 lists.

- `told`: one history -> commits with what was said of them and what they changed
- `lanes`: words and vectors of a history's changes, asked as an index is
- `mine`: histories -> lists of one answer and what both lanes take for it
- `batches`: lists -> padded tokens
- `model`: the network, begun with the encoder's own layers
- `naming`: a network's tensors by the names that the file has
- `train`: the training
- `bundle`: the trained network -> the file that ships
"""
