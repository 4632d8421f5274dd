-- name: insert who read what, or tried to, and what came of it; there is no way to change or remove it
INSERT INTO accesses (scope_id, access_id, key_id, role, evidence, purpose, outcome)
SELECT a.scope_id, a.access_id, a.key_id, a.role, a.evidence, a.purpose, a.outcome
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::text[], $7::text[])
    AS a (scope_id, access_id, key_id, role, evidence, purpose, outcome)

-- name: newest accesses of a scope before ($2, $3) and not before $4; index accesses_pkey
SELECT at, access_id, key_id, role, evidence, purpose, outcome, now() AS opened_at, clock_timestamp() AS read_at
FROM accesses
WHERE scope_id = $1 AND (at, access_id) < ($2, $3) AND at >= $4
ORDER BY at DESC, access_id DESC
LIMIT $5

-- name: oldest accesses of a scope after ($2, $3) and before $4; index accesses_pkey
SELECT at, access_id, key_id, role, evidence, purpose, outcome, now() AS opened_at, clock_timestamp() AS read_at
FROM accesses
WHERE scope_id = $1 AND (at, access_id) > ($2, $3) AND at < $4
ORDER BY at, access_id
LIMIT $5

-- name: of_evidence_newest accesses of one part before ($2, $3) and not before $4; index accesses_by_evidence
SELECT at, access_id, key_id, role, evidence, purpose, outcome, now() AS opened_at, clock_timestamp() AS read_at
FROM accesses
WHERE scope_id = $1 AND evidence = $6 AND (at, access_id) < ($2, $3) AND at <= $2 AND at >= $4
ORDER BY at DESC, access_id DESC
LIMIT $5

-- name: of_evidence_oldest accesses of one part after ($2, $3) and before $4; index accesses_by_evidence
SELECT at, access_id, key_id, role, evidence, purpose, outcome, now() AS opened_at, clock_timestamp() AS read_at
FROM accesses
WHERE scope_id = $1 AND evidence = $6 AND (at, access_id) > ($2, $3) AND at >= $2 AND at < $4
ORDER BY at, access_id
LIMIT $5
