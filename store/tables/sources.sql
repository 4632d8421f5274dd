-- name: facts what a scope knows of some sources now
SELECT s.source, s.revoked_at IS NOT NULL AS revoked, s.latest, s.audience, ARRAY(
    SELECT v.version FROM source_versions v
    WHERE v.scope_id = s.scope_id AND v.source = s.source AND v.withdrawn_at IS NOT NULL) AS withdrawn
FROM sources s
WHERE s.scope_id = $1 AND s.source = ANY($2::text[])

-- name: add_version count one version up and lock the source; an audience of null leaves it as it is
INSERT INTO sources AS s (scope_id, source, source_uid, latest, audience)
VALUES ($1, $2, $3, 1, coalesce($4::text[], '{}'))
ON CONFLICT ON CONSTRAINT sources_pkey
DO UPDATE SET latest = s.latest + 1, audience = coalesce($4::text[], s.audience)
RETURNING s.source_uid, s.latest, now() AS at

-- name: insert_version the new version, not withdrawn
INSERT INTO source_versions (scope_id, source, version) VALUES ($1, $2, $3)

-- name: withdraw_earlier every version below one that is not withdrawn yet
UPDATE source_versions SET withdrawn_at = now()
WHERE scope_id = $1 AND source = $2 AND version < $3 AND withdrawn_at IS NULL
RETURNING version

-- name: lock one source, held until the transaction ends; one that was erased can be opened no more than a destroyed one
SELECT source_uid, latest, revoked_at IS NOT NULL AS revoked, destroyed OR erased_at IS NOT NULL AS destroyed, now() AS at
FROM sources
WHERE scope_id = $1 AND source = $2
FOR UPDATE

-- name: version one version of a source that is locked
SELECT withdrawn_at IS NOT NULL AS closed, destroyed
FROM source_versions
WHERE scope_id = $1 AND source = $2 AND version = $3

-- name: set_revoked close the whole source or open it again
UPDATE sources SET revoked_at = CASE WHEN $3 THEN now() END WHERE scope_id = $1 AND source = $2

-- name: set_erased close the whole source for good
UPDATE sources SET erased_at = coalesce(erased_at, now()) WHERE scope_id = $1 AND source = $2

-- name: set_withdrawn close one version or open it again
UPDATE source_versions SET withdrawn_at = CASE WHEN $4 THEN now() END
WHERE scope_id = $1 AND source = $2 AND version = $3

-- name: page sources after $2 by id
SELECT source, source_uid, latest, audience, revoked_at, destroyed, erased_at IS NOT NULL AS erased, created_at,
       now() AS opened_at, clock_timestamp() AS closed_at
FROM sources
WHERE scope_id = $1 AND source > $2
ORDER BY source
LIMIT $3

-- name: one one source
SELECT source, source_uid, latest, audience, revoked_at, destroyed, erased_at IS NOT NULL AS erased, created_at,
       now() AS opened_at, clock_timestamp() AS closed_at
FROM sources
WHERE scope_id = $1 AND source = $2

-- name: versions_newest versions of a source below $3
SELECT version, withdrawn_at, destroyed, created_at
FROM source_versions
WHERE scope_id = $1 AND source = $2 AND version < $3
ORDER BY version DESC
LIMIT $4
