-- What steps did to files, so that lines which stand there no more are marked; `rebuild` notes what is older.
CREATE TABLE files (
    namespace bigint NOT NULL,
    step bigint NOT NULL,
    place bigint NOT NULL,
    call bigint NOT NULL,
    path text NOT NULL,
    kind bigint NOT NULL,
    lines bytea NOT NULL,
    gone bytea NOT NULL,
    PRIMARY KEY (namespace, step, place)
);
CREATE INDEX files_by_path ON files (namespace, path);
ALTER TABLE files ALTER COLUMN path SET STATISTICS 0, ALTER COLUMN lines SET STATISTICS 0,
    ALTER COLUMN gone SET STATISTICS 0;
ALTER TABLE files ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_namespace ON files USING ((SELECT uses_all()) OR namespace IN (SELECT usable()));
DO $$
DECLARE held regrole;
BEGIN
    FOR held IN SELECT DISTINCT role FROM access LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON files TO %s', held);
    END LOOP;
END
$$;
