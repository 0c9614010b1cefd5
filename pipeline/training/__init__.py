"""Training code for the bundled models; nothing that runs imports it.

- `candidates`: BM25 and static-vector retrieval for mining negatives; commit with message and
  changes, for mining
- `commit_sampling`: Samples commits of a repository; commit message to search queries
- `export`: Quantizes and exports the static table; exports cross-encoder weights; maps cross-
  encoder tensor names; exports encoder weights; maps tensor names
- `export_onnx`: Build script: writes tokenizer.json and the quantized ONNX graph
- `init_static`: Initializes the table from the transformer
- `loop`: Learning-rate schedule and time limit; training options, checkpoints, logging
- `mine_pairs`: Mines (query, positive, hard negatives) lists
- `pair_dataset`: Loads the query/candidate lists of one repository
- `static_dataset`: Training examples of the static encoder
- `torch_models`: Cross-encoder in PyTorch; encoder in PyTorch; transformer layers in PyTorch
- `encoder_batches`: training batches of the encoder
- `cross_encoder_batches`: training batches of the cross-encoder
- `train_cross_encoder`: Padded batches for the cross-encoder; listwise training loop
- `train_encoder`: Contrastive batches; contrastive training loop
- `train_static`: Held-out evaluation (MRR); trains the static embedding table; chooses the
  vocabulary
- `word_bags`: Command: extracts training data from repositories; bag-of-words training examples on
  disk
"""
