-- The schema of a full-text index of DuckDB, with the tables and the macro that its extension would create, as views of
-- the posting tables. So every DuckDB client can search the words of an index, without the extension, and the views
-- never lag behind the rows. `migrations.py` replaces the names in braces.
--
-- A view finds `main` in the database that it is in. A macro finds it in the database in use: `USE` an attached index.

CREATE OR REPLACE VIEW fts_main_{table}.docs AS
SELECT {key} AS docid, {key} AS name, {length} AS len FROM main.{table};

CREATE OR REPLACE VIEW fts_main_{table}.fields AS
SELECT 0 AS fieldid, '{field}' AS field;

-- A row for each occurrence.
CREATE OR REPLACE VIEW fts_main_{table}.terms AS
SELECT {key} AS docid, 0 AS fieldid, term_id AS termid FROM main.{postings}, range(frequency);

CREATE OR REPLACE VIEW fts_main_{table}.dict AS
SELECT term_id AS termid, any_value(term) AS term, count(*) AS df
FROM main.{postings} JOIN main.terms USING (term_id)
GROUP BY term_id;

CREATE OR REPLACE VIEW fts_main_{table}.stats AS
SELECT count(*) AS num_docs, avg({length}) AS avgdl FROM main.{table};

CREATE OR REPLACE VIEW fts_main_{table}.stopwords AS
SELECT NULL::VARCHAR AS sw WHERE FALSE;

-- The score of a document, null if it has none of the words. The posting tables are read instead of `terms` and `dict`,
-- which DuckDB would compute completely for each statement.
CREATE OR REPLACE MACRO fts_main_{table}.match_bm25(
    docname, query_string, fields := NULL, k := 1.2, b := 0.75, conjunctive := FALSE
) AS (
    WITH
    tokens AS (
        SELECT DISTINCT unnest(fts_main_hunks.tokenize(query_string)) AS term
    ),
    matches AS (
        SELECT {key} AS docid, frequency AS tf, count(*) OVER (PARTITION BY term_id) AS df
        FROM main.{postings}
        WHERE term_id IN (SELECT term_id FROM main.terms WHERE term IN (SELECT term FROM tokens))
            AND (fields IS NULL OR list_contains(string_split(fields, ','), '{field}'))
    ),
    scores AS (
        SELECT docid,
               sum(log((num_docs - df + 0.5) / (df + 0.5) + 1)
                   * (tf * (k + 1) / (tf + k * (1 - b + b * len / avgdl)))) AS score
        FROM matches JOIN fts_main_{table}.docs USING (docid), fts_main_{table}.stats
        GROUP BY docid
        HAVING NOT conjunctive OR count(*) = (SELECT count(*) FROM tokens)
    )
    SELECT score FROM scores WHERE docid = docname
);
