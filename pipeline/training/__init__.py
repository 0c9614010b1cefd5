"""Training of the bundled models. No command of lineage imports this package.

Static encoder:

- `word_bags`: command that extracts bags of words from repositories
- `static_dataset`: command that writes the vocabulary with its initial vectors; reader of (query, text) examples
- `train_static`: command that trains the word table, which the static encoder consists of

Encoder and cross-encoder:

- `mine_lists`: command that mines lists: a query, its answer, and hard negatives (changes that a retriever ranks high
  by mistake)
- `list_training`: reader of mined lists, training batches and training loop of both networks
- `torch_models`: both networks in PyTorch
- `train_networks`: command that trains the encoder or the cross-encoder

Query encoder:

- `train_query_encoder`: command that trains the query encoder on questions about commits (`questions.tsv`)

All models:

- `commit_sampling`: random informative commits of a repository, the parts of their messages, and texts of their changes
- `export`: command that writes a bundled file: a trained model, or the tokenizer
"""
