-- name: told how the server is set for this session; what it does not have has no row
SELECT name, setting FROM pg_settings WHERE name = ANY($1::text[])
