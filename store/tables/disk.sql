-- name: used_bytes what the database takes on disk, its indexes included
SELECT pg_database_size(current_database())
