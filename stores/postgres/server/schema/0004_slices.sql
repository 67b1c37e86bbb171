-- Recall of a large namespace reads a slice of it: the passages that an index of vectors, the full-text index, the days
-- and the identifiers of a question find, and those around them. What it must know of all passages is counted here.

DO $$
BEGIN
    IF (SELECT string_to_array(regexp_replace(extversion, '[^0-9.].*', ''), '.')::integer[] < ARRAY[0, 8]
        FROM pg_extension WHERE extname = 'vector') THEN
        RAISE feature_not_supported USING MESSAGE = 'pgvector 0.8 or later is needed: update it on the server, '
            'and run ALTER EXTENSION vector UPDATE';
    END IF;
END
$$;

CREATE TABLE tokens (                            -- how many passages have a token of the embedder
    namespace bigint NOT NULL,
    token bigint NOT NULL,
    passages bigint NOT NULL,
    PRIMARY KEY (namespace, token)
) WITH (fillfactor = 70);

CREATE TABLE identifiers (                       -- the first passage with an identifier, and the first that typed it
    namespace bigint NOT NULL,
    code bigint NOT NULL,
    passages bigint NOT NULL,
    first bigint NOT NULL,
    typed bigint,
    PRIMARY KEY (namespace, code)
) WITH (fillfactor = 70);

-- Identifiers stand in a passage as numbers of four bytes, and token ids of two, little-endian. In the index they are
-- mixed with the namespace, so that one namespace's never meet another's.
CREATE FUNCTION codes_of(namespace bigint, identifiers bytea) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_agg(namespace # (get_byte(identifiers, i) + 256 * get_byte(identifiers, i + 1)
        + 65536 * get_byte(identifiers, i + 2) + 16777216 * get_byte(identifiers, i + 3)::bigint))
    FROM generate_series(0, length(identifiers) - 4, 4) i
$$;
CREATE INDEX passages_by_identifier ON passages USING gin (codes_of(namespace, identifiers)) WITH (fastupdate = off);
CREATE INDEX steps_by_time ON steps (namespace, time);
CREATE INDEX steps_by_speaker ON steps (namespace, speaker) WHERE speaker IS NOT NULL;

-- A passage of an act has what the agent typed.
CREATE FUNCTION is_act(kind text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT kind IN ('thought', 'call', 'code', 'signal', 'planning', 'scratchpad')
$$;

CREATE FUNCTION counted_tokens(wanted bigint) RETURNS TABLE (token bigint, passages bigint)
LANGUAGE sql STABLE AS $$
    SELECT t.token, count(*) FROM passages p CROSS JOIN LATERAL (
        SELECT DISTINCT (get_byte(p.tokens, i) + 256 * get_byte(p.tokens, i + 1))::bigint AS token
        FROM generate_series(0, length(p.tokens) - 2, 2) i) t
    WHERE p.namespace = wanted GROUP BY t.token
$$;

CREATE FUNCTION counted_identifiers(wanted bigint)
RETURNS TABLE (code bigint, passages bigint, first bigint, typed bigint) LANGUAGE sql STABLE AS $$
    SELECT wanted # c.code, count(*), min(p.id), min(p.id) FILTER (WHERE is_act(p.kind))
    FROM passages p CROSS JOIN LATERAL (SELECT DISTINCT unnest(codes_of(p.namespace, p.identifiers)) AS code) c
    WHERE p.namespace = wanted AND c.code != wanted GROUP BY c.code
$$;

-- The passages that have identifiers, `most` of each, the first of all, and the first that typed it. As in `occurrences`,
-- row-level security would keep the GIN index from being used.
CREATE FUNCTION holders(wanted bigint, codes bigint[], most bigint)
RETURNS TABLE (code bigint, first bigint, typed bigint, ids bigint[]) LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, tinymem, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    IF NOT (uses_all() OR wanted IN (SELECT usable())) THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for this namespace';
    END IF;
    RETURN QUERY SELECT c.code, h.first, h.typed, h.ids[:most] FROM unnest(codes) c(code) CROSS JOIN LATERAL (
        SELECT min(p.id) AS first, min(p.id) FILTER (WHERE is_act(p.kind)) AS typed, array_agg(p.id) AS ids
        FROM passages p WHERE p.namespace = wanted
            AND codes_of(p.namespace, p.identifiers) @> ARRAY[wanted # c.code] OFFSET 0) h;
END
$$;

INSERT INTO tokens SELECT n.id, c.* FROM namespaces n CROSS JOIN LATERAL counted_tokens(n.id) c;
INSERT INTO identifiers SELECT n.id, c.* FROM namespaces n CROSS JOIN LATERAL counted_identifiers(n.id) c;

DO $$
DECLARE held text;
BEGIN
    FOREACH held IN ARRAY ARRAY['tokens', 'identifiers'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', held);
        EXECUTE format('CREATE POLICY by_namespace ON %I '
                       'USING ((SELECT uses_all()) OR namespace IN (SELECT usable()))', held);
    END LOOP;
    FOR held IN SELECT DISTINCT a.role FROM access a JOIN pg_roles r ON r.rolname = a.role LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON tokens, identifiers TO %I', held);
    END LOOP;
END
$$;
