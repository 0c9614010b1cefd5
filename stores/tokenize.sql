-- The terms of a text, as `pipeline.text` splits texts, in plain SQL: the stems of each word, also those of the parts of
-- an identifier, and the identifier itself. The steps are those of the Porter stemmer; `Y` is the consonant, `y` the
-- vowel. A test compares both. They differ in the lower case of a few letters that are not ASCII, such as the Turkish
-- capital i with a dot.
CREATE OR REPLACE MACRO fts_main_hunks.tokenize(s) AS (
    WITH
    tokens AS (
        SELECT unnest(regexp_extract_all(CAST(s AS VARCHAR), '[\p{L}\p{N}_]+')) AS token
    ),
    split AS (
        SELECT token,
               CASE WHEN regexp_full_match(token, '[[:ascii:]]+')
                    THEN regexp_extract_all(
                        regexp_replace(token, '([A-Z]+)([A-Z][a-z])', '\1_\2', 'g'), '[A-Z]?[a-z]+|[A-Z]+|[0-9]+')
                    ELSE regexp_extract_all(token, '[\p{L}\p{Nl}\p{No}]+|\p{Nd}+') END AS parts
        FROM tokens
        WHERE length(token) <= 64
    ),
    words AS (
        SELECT lower(unnest(parts)) AS word FROM split
    ),
    step_0 AS (
        SELECT word, regexp_replace(regexp_replace(word, '^y', 'Y'), '([aeiouy])y', '\1Y', 'g') AS w0 FROM words
    ),
    step_1a AS (
        SELECT word,
               CASE WHEN ends_with(w0, 'sses') OR ends_with(w0, 'ies') THEN w0[:-3]
                    WHEN ends_with(w0, 's') AND NOT ends_with(w0, 'ss') THEN w0[:-2]
                    ELSE w0 END AS w1a
        FROM step_0
    ),
    step_1b AS (
        SELECT word,
               regexp_extract(w1a, '(eed|ed|ing)$') AS suffix_1b,
               left(w1a, length(w1a) - length(suffix_1b)) AS stem_1b,
               CASE WHEN suffix_1b = 'eed' THEN if(regexp_matches(stem_1b, '[aeiouy][^aeiouy]'), w1a[:-2], w1a)
                    WHEN suffix_1b = '' OR NOT regexp_matches(stem_1b, '[aeiouy]') THEN w1a
                    WHEN regexp_matches(stem_1b, '(at|bl|iz|^[^aeiouy]+[aeiouy][^aeiouywxY])$') THEN stem_1b || 'e'
                    WHEN regexp_matches(stem_1b, '(bb|dd|ff|gg|mm|nn|pp|rr|tt)$') THEN stem_1b[:-2]
                    ELSE stem_1b END AS w1b
        FROM step_1a
    ),
    step_1c AS (
        SELECT word, regexp_replace(w1b, '^(.*[aeiouy].*)[yY]$', '\1i') AS w1c FROM step_1b
    ),
    step_2 AS (
        SELECT word,
               MAP {
                   'tional': 'tion', 'enci': 'ence', 'anci': 'ance', 'abli': 'able', 'entli': 'ent', 'eli': 'e',
                   'izer': 'ize', 'ization': 'ize', 'ational': 'ate', 'ation': 'ate', 'ator': 'ate', 'alli': 'al',
                   'alism': 'al', 'aliti': 'al', 'fulness': 'ful', 'ousli': 'ous', 'ousness': 'ous',
                   'iveness': 'ive', 'iviti': 'ive', 'biliti': 'ble'
               } AS endings_2,
               regexp_extract(w1c, '(' || array_to_string(map_keys(endings_2), '|') || ')$') AS suffix_2,
               left(w1c, length(w1c) - length(suffix_2)) AS stem_2,
               if(regexp_matches(stem_2, '[aeiouy][^aeiouy]'), stem_2 || coalesce(endings_2[suffix_2], ''), w1c) AS w2
        FROM step_1c
    ),
    step_3 AS (
        SELECT word,
               MAP {
                   'alize': 'al', 'icate': 'ic', 'iciti': 'ic', 'ical': 'ic', 'ative': '', 'ful': '', 'ness': ''
               } AS endings_3,
               regexp_extract(w2, '(' || array_to_string(map_keys(endings_3), '|') || ')$') AS suffix_3,
               left(w2, length(w2) - length(suffix_3)) AS stem_3,
               if(regexp_matches(stem_3, '[aeiouy][^aeiouy]'), stem_3 || coalesce(endings_3[suffix_3], ''), w2) AS w3
        FROM step_2
    ),
    step_4 AS (
        SELECT word,
               regexp_extract(
                   w3,
                   '(al|ance|ence|er|ic|able|ible|ant|ement|ment|ent|ou|ism|ate|iti|ous|ive|ize|ion)$') AS suffix_4,
               left(w3, length(w3) - length(suffix_4)) AS stem_4,
               if(regexp_matches(stem_4, '[aeiouy][^aeiouy].*[aeiouy][^aeiouy]')
                   AND (suffix_4 <> 'ion' OR regexp_matches(stem_4, '[st]$')), stem_4, w3) AS w4
        FROM step_3
    ),
    step_5 AS (
        SELECT word,
               w4[:-2] AS stem_5,
               if(ends_with(w4, 'e')
                   AND (regexp_matches(stem_5, '[aeiouy][^aeiouy].*[aeiouy][^aeiouy]')
                       OR regexp_matches(stem_5, '[aeiouy][^aeiouy]')
                           AND NOT regexp_matches(stem_5, '[^aeiouy][aeiouy][^aeiouywxY]$')), stem_5, w4) AS w5a,
               if(ends_with(w5a, 'll') AND regexp_matches(w5a[:-2], '[aeiouy][^aeiouy].*[aeiouy][^aeiouy]'),
                   w5a[:-2], w5a) AS w5b
        FROM step_4
    )
    SELECT coalesce(list(term), [])
    FROM (
        -- The stem of the word "s" is empty.
        SELECT if(w5b = '', word, replace(w5b, 'Y', 'y')) AS term FROM step_5
        UNION ALL
        SELECT lower(token) FROM split WHERE len(parts) > 1
    )
);
