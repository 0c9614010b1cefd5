"""What both transformers learn from: lists of a question, the change that answers it and others that might.

    python -m training.lists.mine LISTS REPOSITORY...    histories -> questions and candidates

`histories.txt` names the repositories. LISTS holds tokens of texts and never ships.

- `told`: one history -> commits with what was said of them and what they changed
- `lanes`: words and vectors of a history's changes, asked as an index is
- `mine`: histories -> lists of one answer and what both lanes take for it
- `history`: the lists of one history, read
"""
