-- Access belongs to a role and not to its name: who gets the name of a role that was dropped or renamed gets nothing with
-- it. A regrole is written as a name into a backup, which may be restored on a server with other numbers.
DELETE FROM access WHERE role NOT IN (SELECT rolname FROM pg_roles);
ALTER TABLE access ALTER COLUMN role TYPE regrole USING quote_ident(role)::regrole;

CREATE OR REPLACE FUNCTION allowed() RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, tinymem, pg_temp AS $$
    SELECT a.namespace FROM access a JOIN pg_roles r ON r.oid = a.role
    WHERE pg_has_role(asking(), r.oid, 'USAGE')
$$;

CREATE OR REPLACE PROCEDURE allow(role name, namespace text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA tinymem TO %I', role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tinymem TO %I', role);
    EXECUTE format('REVOKE ALL ON tinymem.access, tinymem.format FROM %I', role);
    EXECUTE format('GRANT SELECT ON tinymem.format TO %I', role);
    DELETE FROM tinymem.access a WHERE a.role NOT IN (SELECT oid FROM pg_roles);  -- of those that were dropped
    INSERT INTO tinymem.access VALUES (quote_ident(role)::regrole, namespace) ON CONFLICT DO NOTHING;
END
$$;

CREATE OR REPLACE PROCEDURE deny(role name, namespace text) LANGUAGE sql AS $$
    DELETE FROM tinymem.access a WHERE a.role = to_regrole(quote_ident(deny.role)) AND a.namespace = deny.namespace
$$;
