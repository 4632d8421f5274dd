-- name: lock one run that nobody else narrows, closes or erases until the transaction ends
SELECT r.run_uid, r.run, r.state, r.erased, r.mode, r.content, r.sampled, r.kinds, r.retain_until, r.shared, r.owner_key,
       r.policy_version, r.labels, r.subject, r.default_set, r.declared_at, r.closing_at, r.closed_at, r.never_closed,
       s.sources, s.versions, now() AS now
FROM runs r LEFT JOIN source_sets s ON s.scope_id = r.scope_id AND s.set_id = r.default_set
WHERE r.scope_id = $1 AND r.run = $2
FOR UPDATE OF r

-- name: by_name one run
SELECT r.run_uid, r.run, r.state, r.erased, r.mode, r.content, r.sampled, r.kinds, r.retain_until, r.shared, r.owner_key,
       r.policy_version, r.labels, r.subject, r.default_set, r.declared_at, r.closing_at, r.closed_at, r.never_closed,
       s.sources, s.versions, now() AS now
FROM runs r LEFT JOIN source_sets s ON s.scope_id = r.scope_id AND s.set_id = r.default_set
WHERE r.scope_id = $1 AND r.run = $2

-- name: by_names several runs, of whatever scopes, each with its place among those that were asked for
SELECT w.place, r.run_uid, r.run, r.state, r.erased, r.mode, r.content, r.sampled, r.kinds, r.retain_until, r.shared,
       r.owner_key, r.policy_version, r.labels, r.subject, r.default_set, r.declared_at, r.closing_at, r.closed_at,
       r.never_closed, s.sources, s.versions, now() AS now
FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS w (scope_id, run, place)
JOIN runs r ON r.scope_id = w.scope_id AND r.run = w.run
LEFT JOIN source_sets s ON s.scope_id = r.scope_id AND s.set_id = r.default_set

-- name: now the transaction's time, by which a declaration fixes until when the run is kept
SELECT now()

-- name: insert a run's first declaration; nothing comes back where somebody else declared it meanwhile
INSERT INTO runs (scope_id, run_uid, run, mode, content, sampled, kinds, retain_until, shared, owner_key, policy_version,
                  labels, subject, default_set)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT ON CONSTRAINT runs_once DO NOTHING
RETURNING run_uid

-- name: narrow what a later declaration leaves of a run
UPDATE runs
SET mode = $3, content = $4, kinds = $5, retain_until = $6, shared = $7, policy_version = $8, labels = $9, subject = $10,
    default_set = $11, erased = $12, narrowed_at = CASE WHEN $13 THEN now() ELSE narrowed_at END, renewed_at = now(),
    destroy_from = CASE WHEN $6 < retain_until THEN $6 ELSE destroy_from END
WHERE scope_id = $1 AND run_uid = $2

-- name: renew a later declaration that changes nothing is a sign all the same; runs that declare all the time write it once a minute
UPDATE runs SET renewed_at = now()
WHERE scope_id = $1 AND run_uid = $2 AND state = 'open'
    AND greatest(declared_at, narrowed_at, renewed_at) < now() - interval '1 minute'

-- name: close from now on only what was on its way is taken; the first closing's time stays
UPDATE runs SET state = 'closing', closing_at = now() WHERE scope_id = $1 AND run_uid = $2 AND state = 'open'

-- name: close_silent the same of a run that nobody closed
UPDATE runs SET state = 'closing', closing_at = now(), never_closed = true WHERE scope_id = $1 AND run_uid = $2 AND state = 'open'

-- name: closing_due runs of one scope whose closing began `$2` seconds ago or earlier, oldest first, from one on
SELECT run_uid, run, closing_at AS since
FROM runs
WHERE scope_id = $1 AND state = 'closing' AND closing_at <= now() - make_interval(secs => $2) AND (closing_at, run_uid) > ($3, $4)
ORDER BY closing_at, run_uid
LIMIT $5

-- name: never_closed_due open runs of one scope without a sign for `$2` seconds: no declaration, part, gap, state or fact; from one on
SELECT r.run_uid, r.run, r.declared_at AS since
FROM runs r
WHERE r.scope_id = $1 AND r.state = 'open' AND r.declared_at <= now() - make_interval(secs => $2)
  AND greatest(r.narrowed_at, r.renewed_at, r.declared_at) <= now() - make_interval(secs => $2)
  AND NOT EXISTS (SELECT 1 FROM parts p WHERE p.scope_id = r.scope_id AND p.run_uid = r.run_uid
                  AND p.stored_at > now() - make_interval(secs => $2))
  AND NOT EXISTS (SELECT 1 FROM gaps g WHERE g.scope_id = r.scope_id AND g.run_uid = r.run_uid
                  AND g.last_at > now() - make_interval(secs => $2))
  AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.scope_id = r.scope_id AND a.run_uid = r.run_uid
                  AND a.first_at > now() - make_interval(secs => $2))
  AND NOT EXISTS (SELECT 1 FROM fact_runs f WHERE f.scope_id = r.scope_id AND f.run_uid = r.run_uid
                  AND f.told_at > now() - make_interval(secs => $2))
  AND (r.declared_at, r.run_uid) > ($3, $4)
ORDER BY r.declared_at, r.run_uid
LIMIT $5

-- name: set_closed the end of a run; `$3` is an opening where the account is not among the closings
UPDATE runs
SET state = 'closed', closing_at = coalesce(closing_at, now()), closed_at = now(), never_closed = never_closed OR $4,
    close_opening = $3
WHERE scope_id = $1 AND run_uid = $2 AND state <> 'closed'
RETURNING run_uid

-- name: captured what a run has taken so far: its identities, and the exact bytes of those that are still here
SELECT p.exchange, p.attempt, p.kind, p.evidence, coalesce(b.exact_bytes, 0) AS exact_bytes
FROM parts p
LEFT JOIN bodies b ON b.span_start = p.span_start AND b.scope_id = p.scope_id AND b.evidence = p.evidence
WHERE p.scope_id = $1 AND p.run_uid = $2

-- name: request_erasure let a duty destroy what an erased run has stored
INSERT INTO erasures (scope_id, erasure_id, target_kind, run_uid, requested_by) VALUES ($1, $2, 'run', $3, $4)
