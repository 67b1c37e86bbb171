-- Questions and passages are no longer compared token by token.
ALTER TABLE passages DROP COLUMN tokens;
ALTER TABLE reindexed DROP COLUMN tokens;
DROP TABLE tokens;
DROP FUNCTION counted_tokens;
