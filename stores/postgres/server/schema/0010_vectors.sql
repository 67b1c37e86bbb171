-- Vectors in a table of their own: a passage is found by its words before it has one, and those of a new embedder are made
-- beside those in use.
CREATE TABLE vectors (
    namespace bigint NOT NULL,
    passage bigint NOT NULL,
    embedder text COLLATE "C" NOT NULL,          -- its fingerprint
    vector halfvec NOT NULL,                     -- of any length: several embedders share the table
    PRIMARY KEY (namespace, passage, embedder)
);
ALTER TABLE vectors ALTER COLUMN vector SET STORAGE PLAIN, ALTER COLUMN vector SET STATISTICS 0;
INSERT INTO vectors SELECT p.namespace, p.id, coalesce(s.value, ''), p.vector
    FROM passages p LEFT JOIN settings s ON s.namespace = p.namespace AND s.key = 'embedder';
INSERT INTO vectors SELECT r.namespace, r.passage, s.value, r.vector
    FROM reindexed r JOIN settings s ON s.namespace = r.namespace AND s.key = 'reindexing'
    JOIN passages p ON p.namespace = r.namespace AND p.id = r.passage
    ON CONFLICT DO NOTHING;
DROP TABLE reindexed;
ALTER TABLE passages DROP COLUMN vector;         -- with the indexes of it: `tinymem migrate` makes them again
DELETE FROM settings WHERE key = 'reindexing';
UPDATE settings SET value = split_part(value, ' ', 1) WHERE key = 'made';
ALTER TABLE vectors ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_namespace ON vectors USING ((SELECT uses_all()) OR namespace IN (SELECT usable()));
DO $$
DECLARE held regrole;
BEGIN
    FOR held IN SELECT DISTINCT role FROM access LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON vectors TO %s', held);
    END LOOP;
END
$$;
