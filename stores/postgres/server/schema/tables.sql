-- Every namespace in one set of tables. A namespace's row is its lock: who writes holds it. Texts are compared by code
-- point (COLLATE "C"), as in SQLite.

CREATE TABLE namespaces (
    -- A namespace is found by its name, and the number that it gets is random: so no role can take the place of a name that
    -- it may not use by inserting a row under the number that this name would get.
    id bigint PRIMARY KEY,
    name text NOT NULL,
    identity uuid NOT NULL DEFAULT gen_random_uuid(),  -- of this memory, whatever its address
    version bigint NOT NULL DEFAULT 0,           -- transactions that wrote
    next_number bigint NOT NULL DEFAULT 1,
    next_passage bigint NOT NULL DEFAULT 1,
    passages bigint NOT NULL DEFAULT 0,          -- in the full-text index
    words bigint NOT NULL DEFAULT 0              -- their lengths, in sum
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX namespaces_by_one_name ON namespaces (name COLLATE "C");

CREATE TABLE writers (                           -- so that a writer whose connection broke finds out what was committed
    namespace bigint NOT NULL,
    writer uuid NOT NULL,
    writes bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, writer)
) WITH (fillfactor = 50);

CREATE TABLE settings (
    namespace bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (namespace, key)
) WITH (fillfactor = 70);

CREATE TABLE steps (
    namespace bigint NOT NULL,
    number bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    session text COLLATE "C",
    speaker text COLLATE "C",
    time float8 NOT NULL,
    tokens bigint NOT NULL,
    position bigint NOT NULL,
    record text NOT NULL,
    in_window boolean NOT NULL,
    view text,
    milestone boolean NOT NULL,
    archived float8,
    PRIMARY KEY (namespace, number)
);
CREATE UNIQUE INDEX steps_by_id ON steps (namespace, id);
CREATE INDEX steps_in_window ON steps (namespace, number) WHERE in_window;
CREATE INDEX steps_by_session ON steps (namespace, session, number);

CREATE TABLE labels (
    namespace bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    step bigint NOT NULL,
    PRIMARY KEY (namespace, name, value, step)
);
CREATE INDEX labels_by_step ON labels (namespace, step);

CREATE TABLE messages (                          -- known by what they say and how often
    namespace bigint NOT NULL,
    said text COLLATE "C" NOT NULL,
    nth bigint NOT NULL,
    step bigint NOT NULL,
    is_last boolean NOT NULL,
    PRIMARY KEY (namespace, said, nth)
);

CREATE TABLE notes (                             -- of what steps did to things, as files: see tinymem.protocols.tracking
    namespace bigint NOT NULL,
    step bigint NOT NULL,
    place bigint NOT NULL,
    key text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (namespace, step, place)
);
CREATE INDEX notes_by_key ON notes (namespace, key);

CREATE TABLE passages (
    namespace bigint NOT NULL,
    id bigint NOT NULL,
    step bigint NOT NULL,
    part bigint NOT NULL,
    start bigint NOT NULL,
    finish bigint NOT NULL,
    kind text NOT NULL,
    asks boolean NOT NULL,
    identifiers bytea NOT NULL,
    tools text NOT NULL,
    PRIMARY KEY (namespace, id)
);
CREATE INDEX passages_by_step ON passages (namespace, step, id);

CREATE TABLE vectors (                           -- those of a new embedder are made beside those in use
    namespace bigint NOT NULL,
    passage bigint NOT NULL,
    embedder text COLLATE "C" NOT NULL,          -- its fingerprint
    vector bytea NOT NULL,                       -- in half precision, little-endian
    PRIMARY KEY (namespace, passage, embedder)
);
ALTER TABLE vectors ALTER COLUMN vector SET STORAGE EXTERNAL;  -- no compression finds anything in them

-- The full-text index: hashes of (namespace, stem), so that one namespace's occurrences never mix with another's.
CREATE TABLE terms (
    namespace bigint NOT NULL,
    passage bigint NOT NULL,
    length bigint NOT NULL,
    stems bigint[] NOT NULL,
    times integer[] NOT NULL,                    -- how often the passage has each of the stems
    PRIMARY KEY (namespace, passage)
);
CREATE INDEX terms_by_stem ON terms USING gin (stems) WITH (fastupdate = off);

CREATE TABLE stems (                             -- how many passages have a stem
    namespace bigint NOT NULL,
    stem bigint NOT NULL,
    passages bigint NOT NULL,
    PRIMARY KEY (namespace, stem)
) WITH (fillfactor = 70);

CREATE TABLE summaries (
    namespace bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    session text,
    text text NOT NULL,
    PRIMARY KEY (namespace, first)
);

-- The planner's statistics hold samples of values, which would outlive a step that is forgotten. What was said, and its
-- vectors, are in none: no query compares them.

ALTER TABLE steps ALTER COLUMN record SET STATISTICS 0, ALTER COLUMN view SET STATISTICS 0,
    ALTER COLUMN id SET STATISTICS 0, ALTER COLUMN session SET STATISTICS 0, ALTER COLUMN speaker SET STATISTICS 0;
ALTER TABLE settings ALTER COLUMN value SET STATISTICS 0;
ALTER TABLE labels ALTER COLUMN name SET STATISTICS 0, ALTER COLUMN value SET STATISTICS 0;
ALTER TABLE messages ALTER COLUMN said SET STATISTICS 0;
ALTER TABLE notes ALTER COLUMN key SET STATISTICS 0, ALTER COLUMN data SET STATISTICS 0;
ALTER TABLE passages ALTER COLUMN identifiers SET STATISTICS 0, ALTER COLUMN tools SET STATISTICS 0;
ALTER TABLE vectors ALTER COLUMN vector SET STATISTICS 0;
ALTER TABLE summaries ALTER COLUMN session SET STATISTICS 0, ALTER COLUMN text SET STATISTICS 0;

-- Who may use which namespaces. The owner of the tables and superusers use all of them. Any other role uses those that it,
-- or a role that it is a member of, was allowed, and sees nothing else:
--
--     CALL tinymem.allow('bot', 'release-bot');   -- or 'team/*' for all that begin with team/, or '*' for all
--     CALL tinymem.deny('bot', 'release-bot');
--
-- Access belongs to a role and not to its name: who gets the name of a role that was dropped or renamed gets nothing with
-- it. A regrole is written as a name into a backup, which may be restored on a server with other numbers.

CREATE TABLE access (
    role regrole NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    PRIMARY KEY (role, namespace)
);

-- The role that asks, also inside a function that runs with its owner's rights.
CREATE FUNCTION asking() RETURNS name LANGUAGE sql STABLE AS $$
    SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END
$$;

CREATE FUNCTION allowed() RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, tinymem, pg_temp AS $$
    SELECT a.namespace FROM access a JOIN pg_roles r ON r.oid = a.role
    WHERE pg_has_role(asking(), r.oid, 'USAGE')
$$;

CREATE FUNCTION uses_all() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, tinymem, pg_temp AS $$
    SELECT pg_has_role(asking(), current_user, 'USAGE')
        OR (SELECT rolbypassrls FROM pg_roles WHERE rolname = asking())
        OR EXISTS (SELECT 1 FROM allowed() pattern WHERE pattern = '*')
$$;

CREATE FUNCTION may_use(wanted text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, tinymem, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM allowed() pattern
        WHERE pattern = wanted OR (right(pattern, 1) = '*' AND starts_with(wanted, left(pattern, -1))))
$$;

CREATE FUNCTION usable() RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, tinymem, pg_temp AS $$
    SELECT n.id FROM allowed() pattern JOIN namespaces n ON n.name COLLATE "C" = pattern
    UNION
    SELECT n.id FROM allowed() pattern JOIN namespaces n ON right(pattern, 1) = '*'
        AND n.name COLLATE "C" >= left(pattern, -1) AND n.name COLLATE "C" < left(pattern, -1) || U&'\+10FFFF'
$$;

-- The text search: the occurrences of the rarest stems, up to `most_passages` in sum, and the places of the stems that no
-- passage has, as negative numbers. Row-level security keeps the GIN index from being used, since @> is not leakproof: so
-- this checks the namespace once, and then searches with its owner's rights. Without OFFSET 0 the planner may read the
-- whole table.
CREATE FUNCTION occurrences(wanted bigint, hashes bigint[], most_passages bigint)
RETURNS TABLE (nth bigint, passages bigint[], times integer[], lengths bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, tinymem, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    IF NOT (uses_all() OR wanted IN (SELECT usable())) THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for this namespace';
    END IF;
    RETURN QUERY WITH asked AS (
        SELECT a.stem, a.nth, coalesce(s.passages, 0) AS found
        FROM unnest(hashes) WITH ORDINALITY a(stem, nth)
        LEFT JOIN stems s ON s.namespace = wanted AND s.stem = a.stem
    ), counted AS (
        SELECT stem, nth, row_number() OVER rarest AS place, sum(found) OVER rarest AS all_found
        FROM asked WHERE found > 0 WINDOW rarest AS (ORDER BY found, nth)
    ), chosen AS (
        SELECT * FROM counted WHERE place = 1 OR all_found <= most_passages
    )
    (SELECT c.nth, t.passages, t.times, t.lengths FROM chosen c CROSS JOIN LATERAL (
        SELECT array_agg(terms.passage) AS passages,
            array_agg(terms.times[array_position(terms.stems, c.stem)]) AS times, array_agg(terms.length) AS lengths
        FROM terms WHERE terms.namespace = wanted AND terms.stems @> ARRAY[c.stem] OFFSET 0) t ORDER BY c.place)
    UNION ALL SELECT -nth, NULL, NULL, NULL FROM asked WHERE found = 0;
END
$$;

CREATE PROCEDURE allow(role name, namespace text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tinymem TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tinymem TO %I', role);
    EXECUTE format('REVOKE ALL ON tinymem.access, tinymem.format FROM %I', role);
    EXECUTE format('GRANT SELECT ON tinymem.format TO %I', role);
    DELETE FROM tinymem.access a WHERE a.role NOT IN (SELECT oid FROM pg_roles);  -- of those that were dropped
    INSERT INTO tinymem.access VALUES (quote_ident(role)::regrole, namespace) ON CONFLICT DO NOTHING;
END
$$;

CREATE PROCEDURE deny(role name, namespace text) LANGUAGE sql AS $$
    DELETE FROM tinymem.access a WHERE a.role = to_regrole(quote_ident(deny.role)) AND a.namespace = deny.namespace
$$;

DO $$
DECLARE held text;
BEGIN
    FOREACH held IN ARRAY ARRAY['writers', 'settings', 'steps', 'labels', 'messages', 'notes', 'passages', 'vectors', 'terms',
                                'stems', 'summaries'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', held);
        EXECUTE format('CREATE POLICY by_namespace ON %I '
                       'USING ((SELECT uses_all()) OR namespace IN (SELECT usable()))', held);
    END LOOP;
END
$$;
ALTER TABLE namespaces ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_name ON namespaces USING ((SELECT uses_all()) OR may_use(name));
ALTER TABLE access ENABLE ROW LEVEL SECURITY;   -- without a policy: for the owner alone
