-- Every namespace in one set of tables. A namespace's row is its lock: who writes holds it. Texts are compared by code
-- point (COLLATE "C"), as in SQLite.

CREATE TABLE namespaces (
    id bigint PRIMARY KEY,                       -- found by its name; see 0005_names.sql
    name text NOT NULL,
    identity uuid NOT NULL DEFAULT gen_random_uuid(),  -- of this memory, whatever its address
    version bigint NOT NULL DEFAULT 0,           -- transactions that wrote
    next_number bigint NOT NULL DEFAULT 1,
    next_passage bigint NOT NULL DEFAULT 1,
    passages bigint NOT NULL DEFAULT 0,          -- in the full-text index
    words bigint NOT NULL DEFAULT 0              -- their lengths, in sum
) WITH (fillfactor = 50);

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

CREATE TABLE links (
    namespace bigint NOT NULL,
    link text COLLATE "C" NOT NULL,
    alike text COLLATE "C" NOT NULL,
    step bigint NOT NULL,
    place bigint NOT NULL,
    PRIMARY KEY (namespace, link)
);
CREATE INDEX links_alike ON links (namespace, alike, step);

CREATE TABLE passages (
    namespace bigint NOT NULL,
    id bigint NOT NULL,
    step bigint NOT NULL,
    part bigint NOT NULL,
    start bigint NOT NULL,
    finish bigint NOT NULL,
    kind text NOT NULL,
    asks boolean NOT NULL,
    vector halfvec NOT NULL,                     -- of any length: several embedders share the table
    tokens bytea NOT NULL,
    identifiers bytea NOT NULL,
    tools text NOT NULL,
    PRIMARY KEY (namespace, id)
);
ALTER TABLE passages ALTER COLUMN vector SET STORAGE PLAIN;
CREATE INDEX passages_by_step ON passages (namespace, step, id);

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
    level bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    session text,
    text text NOT NULL,
    PRIMARY KEY (namespace, level, first)
);

CREATE TABLE reindexed (                         -- vectors of a new embedder, beside those in use
    namespace bigint NOT NULL,
    passage bigint NOT NULL,
    vector halfvec NOT NULL,
    tokens bytea NOT NULL,
    PRIMARY KEY (namespace, passage)
);
ALTER TABLE reindexed ALTER COLUMN vector SET STORAGE PLAIN;
