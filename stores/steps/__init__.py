"""Numbered steps from schema to schema; `stores.migrations` applies them.

A step is never changed once an index was brought forward by it, and reads nothing of the current tables.

- `m002_versions_of_rows`: which versions made which rows; when a pass ended; the embedding cache's use
"""
