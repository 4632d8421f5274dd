-- name: parts_of_run how many parts a run has stored, whatever became of them
SELECT count(*) FROM parts WHERE scope_id = $1 AND run_uid = $2

-- name: names_without_numbers how many observations were lost that have a name and no number, by reason
SELECT reason, sum(times)::bigint AS times
FROM gaps
WHERE scope_id = $1 AND run_uid = $2 AND exchange IS NOT NULL AND sequence IS NULL AND superseded_by IS NULL
GROUP BY reason

-- name: scopes_unclosed scopes with runs that are not closed, from an id on
SELECT DISTINCT scope_id FROM runs WHERE state <> 'closed' AND scope_id > $1 ORDER BY scope_id LIMIT $2

-- name: closing_over whether some closing began `$1` seconds ago or earlier
SELECT EXISTS (SELECT 1 FROM runs WHERE state = 'closing' AND closing_at <= now() - make_interval(secs => $1))
