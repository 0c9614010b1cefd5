"""How the transformer was taught commits; nothing that runs imports it.

    pip install 'history-lineage[training]'
    python -m training.encoder.train LISTS OUT --weights FOLDER --held-out NAME...    contrastive training
    python -m training.encoder.bundle OUT WEIGHTS --weights FOLDER    the file that ships

LISTS is what `training.lists.mine` wrote. What ships was trained for 50 minutes with seed 1 on two cores: some 1,160
steps of 32 questions, out of 193,239 lists of 69 histories. WEIGHTS, the network as it ships in 32-bit floats, is 90 MB
and not kept: what it makes of 500 hunks is (`tests.data.encoder_reference`).

- `batches`: lists -> questions and texts of one history, padded
- `model`: the network, begun with all-MiniLM-L6-v2
- `train`: the training
- `bundle`: the trained network -> the file that ships
"""
