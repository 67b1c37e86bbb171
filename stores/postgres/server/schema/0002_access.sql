-- Who may use which namespaces. The owner of the tables and superusers use all of them. Any other role uses those that it,
-- or a role that it is a member of, was allowed, and sees nothing else:
--
--     CALL tinymem.allow('bot', 'release-bot');   -- or 'team/*' for all that begin with team/, or '*' for all
--     CALL tinymem.deny('bot', 'release-bot');

CREATE TABLE access (
    role name NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    PRIMARY KEY (role, namespace)
);
CREATE INDEX namespaces_by_name ON namespaces (name COLLATE "C");

-- The role that asks, also inside a function that runs with its owner's rights.
CREATE FUNCTION asking() RETURNS name LANGUAGE sql STABLE AS $$
    SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END
$$;

CREATE FUNCTION allowed() RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, tinymem, pg_temp AS $$
    SELECT a.namespace FROM access a JOIN pg_roles r ON r.rolname = a.role
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

-- The text search: the occurrences of the rarest stems, up to `most_stems`, and `most_passages` in sum. Row-level security
-- keeps the GIN index from being used, since @> is not leakproof: so this checks the namespace once, and then searches
-- with its owner's rights. Without OFFSET 0 the planner may read the whole table.
CREATE FUNCTION occurrences(wanted bigint, hashes bigint[], waiting bigint[], most_stems bigint, most_passages bigint)
RETURNS TABLE (nth bigint, passages bigint[], times integer[], lengths bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, tinymem, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    IF NOT (uses_all() OR wanted IN (SELECT usable())) THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for this namespace';
    END IF;
    RETURN QUERY WITH asked AS (
        SELECT a.stem, a.nth, a.waits + coalesce(s.passages, 0) AS found
        FROM unnest(hashes, waiting) WITH ORDINALITY a(stem, waits, nth)
        LEFT JOIN stems s ON s.namespace = wanted AND s.stem = a.stem
    ), counted AS (
        SELECT stem, nth, row_number() OVER rarest AS place, sum(found) OVER rarest AS all_found
        FROM asked WHERE found > 0 WINDOW rarest AS (ORDER BY found, nth)
    ), chosen AS (
        SELECT * FROM counted WHERE place = 1 OR (place <= most_stems AND all_found <= most_passages)
    )
    SELECT c.nth, t.passages, t.times, t.lengths FROM chosen c CROSS JOIN LATERAL (
        SELECT array_agg(terms.passage) AS passages,
            array_agg(terms.times[array_position(terms.stems, c.stem)]) AS times, array_agg(terms.length) AS lengths
        FROM terms WHERE terms.namespace = wanted AND terms.stems @> ARRAY[c.stem] OFFSET 0) t ORDER BY c.place;
END
$$;

CREATE PROCEDURE allow(role name, namespace text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tinymem TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tinymem TO %I', role);
    EXECUTE format('REVOKE ALL ON tinymem.access, tinymem.format FROM %I', role);
    EXECUTE format('GRANT SELECT ON tinymem.format TO %I', role);
    INSERT INTO tinymem.access VALUES (role, namespace) ON CONFLICT DO NOTHING;
END
$$;

CREATE PROCEDURE deny(role name, namespace text) LANGUAGE sql AS $$
    DELETE FROM tinymem.access a WHERE a.role = deny.role AND a.namespace = deny.namespace
$$;

DO $$
DECLARE held text;
BEGIN
    FOREACH held IN ARRAY ARRAY['writers', 'settings', 'steps', 'labels', 'links', 'passages', 'terms', 'stems',
                                'summaries', 'reindexed'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', held);
        EXECUTE format('CREATE POLICY by_namespace ON %I '
                       'USING ((SELECT uses_all()) OR namespace IN (SELECT usable()))', held);
    END LOOP;
END
$$;
ALTER TABLE namespaces ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_name ON namespaces USING ((SELECT uses_all()) OR may_use(name));
ALTER TABLE access ENABLE ROW LEVEL SECURITY;   -- without a policy: for the owner alone
