-- name: get the mark of a key; none where nobody has set this store's keys down yet
SELECT mark FROM key_marks WHERE name = $1

-- name: keep set a key's mark down, once; the first stays
INSERT INTO key_marks (name, mark) VALUES ($1, $2) ON CONFLICT ON CONSTRAINT key_marks_pkey DO NOTHING
