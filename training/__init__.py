"""How the static encoder's table and both transformers were made; nothing that runs imports it.

    python -m training.extract LESSONS REPOSITORY...    histories -> bags of words
    python -m training.teacher LESSONS START REPOSITORY...    what the transformer makes of each word: where rows begin
    python -m training.table LESSONS OUT --started START --passes 2 --held-out NAME    contrastive training
    python -m training.bundle OUT/table.npz    the file that ships

The same repositories, commits and seeds give the same lessons, and these the same table. `histories.txt` names the
repositories; those that `tests.eval` measures rankings on are not among them. Lessons keep no text: which words a
message or a change has, and which of them belong together.

- `telling`: a commit's message -> what somebody might ask for the change by
- `commits`: one history -> commits that tell something, with what they changed, drawn by a seed
- `lessons`: one history -> its lessons, on disk as arrays
- `extract`: histories -> lessons, several at a time
- `vocabulary`: which words have a row of their own
- `material`: lessons of many histories -> numbered examples, in batches
- `teacher`: what the bundled transformer makes of each word alone
- `table`: the training
- `held_out`: how well a table ranks histories it was not trained on
- `bundle`: the trained table -> the file that ships
- `lists`: what the transformers learn from, out of the same histories
- `transformer`: the encoder's layers in PyTorch
- `naming`: their tensors' names
- `pace`: how long to learn, and how fast
- `running`: what a training run of either is given, and how it goes on
- `encoder`: the transformer's own training
- `cross_encoder`: the cross-encoder's
"""
