-- Questions and passages are no longer compared token by token.
ALTER TABLE passages DROP COLUMN tokens;
ALTER TABLE reindexed DROP COLUMN tokens;
DROP TABLE tokens;
DROP FUNCTION counted_tokens;

-- As before, and the places of the stems that no passage has, as negative numbers.
CREATE OR REPLACE FUNCTION occurrences(wanted bigint, hashes bigint[], waiting bigint[], most_stems bigint, most_passages bigint)
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
    (SELECT c.nth, t.passages, t.times, t.lengths FROM chosen c CROSS JOIN LATERAL (
        SELECT array_agg(terms.passage) AS passages,
            array_agg(terms.times[array_position(terms.stems, c.stem)]) AS times, array_agg(terms.length) AS lengths
        FROM terms WHERE terms.namespace = wanted AND terms.stems @> ARRAY[c.stem] OFFSET 0) t ORDER BY c.place)
    UNION ALL SELECT -nth, NULL, NULL, NULL FROM asked WHERE found = 0;
END
$$;

CREATE OR REPLACE FUNCTION is_act(kind text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT kind IN ('thought', 'announcement', 'call', 'code', 'signal', 'planning', 'scratchpad')
$$;
