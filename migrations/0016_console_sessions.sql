-- Who is signed in to the console. Runs before the code that needs it; code of before does not look at it. Locks: none, a new table.

-- A session is known by a digest of what the browser holds, which is nowhere here. It ends with its key, whose row says so at
-- every request; `secret` is the digest of that secret of the key by which somebody signed in, so that one that is retired ends its
-- sessions too (null: a proxy vouched for the key). `scope_id` is the scope that a store-wide operator looks at. Rows are removed
-- when somebody signs out, and some time after their end by whoever signs in next.
CREATE TABLE console_sessions (
    digest      bytea       NOT NULL,
    key_id      text        NOT NULL REFERENCES api_keys (key_id),
    secret      bytea,
    scope_id    uuid        REFERENCES scopes (scope_id),
    purpose     text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    seen_at     timestamptz NOT NULL DEFAULT now(),
    ends_at     timestamptz NOT NULL,
    CONSTRAINT console_sessions_pkey PRIMARY KEY (digest)
);
CREATE INDEX console_sessions_by_key ON console_sessions (key_id, created_at);
CREATE INDEX console_sessions_by_end ON console_sessions (ends_at);

GRANT SELECT, INSERT, DELETE, UPDATE (scope_id, purpose, seen_at) ON console_sessions TO custody_service;
