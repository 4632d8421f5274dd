-- name: head what one run shows in its header besides its list entry
SELECT owner_key, policy_version, subject IS NOT NULL AS of_subject, narrowed_at, retain_until <= now() AS expired
FROM runs
WHERE scope_id = $1 AND run_uid = $2

-- name: page_oldest attempts of which anything was told, stored or missed, after ($3, $4), beside how far the run reaches; all of it is read
WITH f AS MATERIALIZED (
    SELECT s.exchange, s.attempt, min(s.at) AS first_at, max(s.at) AS last_at
    FROM (
        SELECT exchange, attempt, first_at AS at FROM attempts WHERE scope_id = $1 AND run_uid = $2
        UNION ALL
        SELECT exchange, attempt, received_at FROM parts WHERE scope_id = $1 AND run_uid = $2
        UNION ALL
        SELECT exchange, attempt, first_at FROM gaps WHERE scope_id = $1 AND run_uid = $2 AND exchange IS NOT NULL AND superseded_by IS NULL
    ) AS s
    GROUP BY s.exchange, s.attempt
), edge AS (
    SELECT max(n.first_at) AS at FROM (SELECT first_at FROM f WHERE first_at > $3 ORDER BY first_at LIMIT $5) AS n
), near AS (
    SELECT exchange, attempt, first_at, md5(exchange || ' ' || attempt)::uuid AS tie
    FROM f
    WHERE first_at >= $3 AND first_at <= coalesce((SELECT at FROM edge), $3)
), page AS (
    SELECT exchange, attempt, first_at, tie
    FROM near
    WHERE (first_at, tie) > ($3, $4)
    ORDER BY first_at, tie
    LIMIT $5
)
SELECT e.begins, e.ends, e.attempts, (SELECT count(*) FROM (SELECT FROM f GROUP BY exchange) AS x) AS exchanges,
       p.exchange, p.attempt, p.first_at, p.tie
FROM (SELECT min(first_at) AS begins, max(last_at) AS ends, count(*) AS attempts FROM f) AS e
LEFT JOIN page p ON true
ORDER BY p.first_at, p.tie

-- name: page_newest the same, before ($3, $4)
WITH f AS MATERIALIZED (
    SELECT s.exchange, s.attempt, min(s.at) AS first_at, max(s.at) AS last_at
    FROM (
        SELECT exchange, attempt, first_at AS at FROM attempts WHERE scope_id = $1 AND run_uid = $2
        UNION ALL
        SELECT exchange, attempt, received_at FROM parts WHERE scope_id = $1 AND run_uid = $2
        UNION ALL
        SELECT exchange, attempt, first_at FROM gaps WHERE scope_id = $1 AND run_uid = $2 AND exchange IS NOT NULL AND superseded_by IS NULL
    ) AS s
    GROUP BY s.exchange, s.attempt
), edge AS (
    SELECT min(n.first_at) AS at FROM (SELECT first_at FROM f WHERE first_at < $3 ORDER BY first_at DESC LIMIT $5) AS n
), near AS (
    SELECT exchange, attempt, first_at, md5(exchange || ' ' || attempt)::uuid AS tie
    FROM f
    WHERE first_at <= $3 AND first_at >= coalesce((SELECT at FROM edge), $3)
), page AS (
    SELECT exchange, attempt, first_at, tie
    FROM near
    WHERE (first_at, tie) < ($3, $4)
    ORDER BY first_at DESC, tie DESC
    LIMIT $5
)
SELECT e.begins, e.ends, e.attempts, (SELECT count(*) FROM (SELECT FROM f GROUP BY exchange) AS x) AS exchanges,
       p.exchange, p.attempt, p.first_at, p.tie
FROM (SELECT min(first_at) AS begins, max(last_at) AS ends, count(*) AS attempts FROM f) AS e
LEFT JOIN page p ON true
ORDER BY p.first_at DESC, p.tie DESC

-- name: of_exchange_oldest attempts of one exchange of which anything was told, stored or missed, after ($3, $4), each with its place among all; indexes attempts_pkey, parts_identity_once
SELECT f.exchange, f.attempt, f.first_at, f.tie, f.place
FROM (
    SELECT s.exchange, s.attempt, min(s.at) AS first_at, md5(s.exchange || ' ' || s.attempt)::uuid AS tie,
           row_number() OVER (ORDER BY min(s.at), md5(s.exchange || ' ' || s.attempt)::uuid) AS place
    FROM (
        SELECT exchange, attempt, first_at AS at FROM attempts WHERE scope_id = $1 AND run_uid = $2 AND exchange = $6
        UNION ALL
        SELECT exchange, attempt, received_at FROM parts WHERE scope_id = $1 AND run_uid = $2 AND exchange = $6
        UNION ALL
        SELECT exchange, attempt, first_at FROM gaps WHERE scope_id = $1 AND run_uid = $2 AND exchange = $6 AND superseded_by IS NULL
    ) AS s
    GROUP BY s.exchange, s.attempt
) AS f
WHERE (f.first_at, f.tie) > ($3, $4)
ORDER BY f.first_at, f.tie
LIMIT $5

-- name: of_exchange_newest the same, before ($3, $4)
SELECT f.exchange, f.attempt, f.first_at, f.tie, f.place
FROM (
    SELECT s.exchange, s.attempt, min(s.at) AS first_at, md5(s.exchange || ' ' || s.attempt)::uuid AS tie,
           row_number() OVER (ORDER BY min(s.at), md5(s.exchange || ' ' || s.attempt)::uuid) AS place
    FROM (
        SELECT exchange, attempt, first_at AS at FROM attempts WHERE scope_id = $1 AND run_uid = $2 AND exchange = $6
        UNION ALL
        SELECT exchange, attempt, received_at FROM parts WHERE scope_id = $1 AND run_uid = $2 AND exchange = $6
        UNION ALL
        SELECT exchange, attempt, first_at FROM gaps WHERE scope_id = $1 AND run_uid = $2 AND exchange = $6 AND superseded_by IS NULL
    ) AS s
    GROUP BY s.exchange, s.attempt
) AS f
WHERE (f.first_at, f.tie) < ($3, $4)
ORDER BY f.first_at DESC, f.tie DESC
LIMIT $5

-- name: told what was told of some attempts
SELECT a.exchange, a.attempt, a.dispatch, a.settlement, a.dispatch_conflict, a.settlement_conflict, a.first_at
FROM unnest($3::text[], $4::text[]) AS w (exchange, attempt)
JOIN attempts a ON a.scope_id = $1 AND a.run_uid = $2 AND a.exchange = w.exchange AND a.attempt = w.attempt

-- name: part_keys where the parts of some attempts lie; index parts_identity_once
SELECT p.evidence, p.span_start, p.stored_at, p.run_uid, p.exchange, p.attempt, p.kind, now() AS opened_at
FROM unnest($3::text[], $4::text[]) AS w (exchange, attempt)
JOIN parts p ON p.scope_id = $1 AND p.run_uid = $2 AND p.exchange = w.exchange AND p.attempt = w.attempt

-- name: missed what is missing of some attempts, the strongest first; index gaps_named_once
SELECT g.exchange, g.attempt, g.kind, g.said_by, g.reason, g.first_at
FROM unnest($3::text[], $4::text[]) AS w (exchange, attempt)
JOIN gaps g ON g.scope_id = $1 AND g.run_uid = $2 AND g.exchange = w.exchange AND g.attempt = w.attempt
WHERE g.superseded_by IS NULL
ORDER BY array_position(ARRAY['store', 'client', 'count'], g.said_by), g.first_at

-- name: groups a run's parts by stretch of time ($5 from $3 on, each as long as $4) and by all that decides whether they may be read
SELECT least(greatest(round(extract(epoch FROM g.since - $3) / extract(epoch FROM $4::interval)), 0), $5::integer - 1)::integer AS stretch,
       g.parts, g.state, g.purge_reason, r.retain_until, r.erased, b.state <> 'live' AS bucket_expired,
       false AS held, s.sources, s.versions,
       CASE WHEN g.source_set IS NOT NULL THEN (
           SELECT json_agg(json_build_array(f.source, f.revoked_at IS NOT NULL, f.latest, f.audience, ARRAY(
               SELECT v.version FROM source_versions v
               WHERE v.scope_id = f.scope_id AND v.source = f.source AND v.withdrawn_at IS NOT NULL)))
           FROM sources f WHERE f.scope_id = $1 AND f.source = ANY(s.sources)
       ) END AS source_facts,
       coalesce(c.policy ->> 'unknown_sources', 'refuse') AS unknown_sources, now() AS observed_at
FROM (
    SELECT date_bin($4::interval, received_at, $3::timestamptz) AS since, state, purge_reason, bucket_id, source_set, count(*) AS parts
    FROM parts
    WHERE scope_id = $1 AND run_uid = $2
    GROUP BY 1, state, purge_reason, bucket_id, source_set
) AS g
JOIN runs r ON r.scope_id = $1 AND r.run_uid = $2
JOIN buckets b ON b.scope_id = $1 AND b.bucket_id = g.bucket_id
JOIN scopes c ON c.scope_id = $1
LEFT JOIN source_sets s ON s.scope_id = $1 AND s.set_id = g.source_set

-- name: missed_groups a run's missing observations by the same stretches of time and by reason, as far as they have an identity
SELECT least(greatest(round(extract(epoch FROM date_bin($4::interval, first_at, $3::timestamptz) - $3) / extract(epoch FROM $4::interval)),
                      0), $5::integer - 1)::integer AS stretch,
       reason, count(DISTINCT (exchange, attempt, kind)) AS parts
FROM gaps
WHERE scope_id = $1 AND run_uid = $2 AND exchange IS NOT NULL AND superseded_by IS NULL
GROUP BY 1, reason
