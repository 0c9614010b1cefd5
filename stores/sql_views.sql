-- Temporary views and macros for SQL statements of users, over the index in use.

-- A row for each file that a commit changes, and for each commit without one, with an empty path; only commits that
-- HEAD reaches.
CREATE OR REPLACE TEMP VIEW changes AS
SELECT hunk_id, commit_sha, commit_date, author_name, author_email, split_part(trim(message), chr(10), 1) AS subject,
       file_path, old_path, change_kind, language, added_lines, removed_lines
FROM hunks JOIN commits USING (commit_sha)
WHERE commit_sha NOT IN (SELECT commit_sha FROM unreached);

-- A row for each symbol that a change touches.
CREATE OR REPLACE TEMP VIEW symbol_changes AS
SELECT name, parent, kind, confidence, changes.* FROM hunk_symbols JOIN changes USING (hunk_id);

-- The repository's tags of indexed commits.
CREATE OR REPLACE TEMP VIEW tags AS
SELECT name, commit_sha, commit_date FROM tags_in JOIN commits USING (commit_sha);

-- The `n` changes with the highest BM25 scores for the words.
CREATE OR REPLACE TEMP MACRO search_hunks(words, n := 10) AS TABLE
SELECT score, changes.*
FROM (SELECT hunk_id, fts_main_hunks.match_bm25(hunk_id, words) AS score FROM hunks)
JOIN changes USING (hunk_id)
WHERE score IS NOT NULL
ORDER BY score DESC, commit_date DESC, file_path
LIMIT n;

-- The `n` changes with the highest cosine similarity to the vector, such as that of `embed('a sentence')`.
CREATE OR REPLACE TEMP MACRO similar_hunks(vector, n := 10) AS TABLE
WITH query AS MATERIALIZED (SELECT CAST(vector AS FLOAT[384]) AS query_vector)
SELECT array_cosine_similarity(CAST(codes AS FLOAT[384]), query_vector) AS similarity, changes.*
FROM query, vectors
JOIN hunks USING (text_digest)
JOIN changes USING (hunk_id)
ORDER BY similarity DESC, changes.commit_date DESC, changes.file_path
LIMIT n;
