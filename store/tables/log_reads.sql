-- What readers ask of the published log.

-- name: closed why reads are closed; nothing where they are open, as in a store whose log nobody has compared yet
SELECT coalesce(stop, CASE WHEN compared_at < now() - make_interval(secs => $1) OR compared_on <> this_database()
    THEN 'not_compared' END) AS closed
FROM log_state

-- name: gauges how far the log is, how far published, and since when nobody has compared it with its mirror
SELECT size, published_size, extract(epoch FROM now() - compared_at)::double precision AS compared_age_s, stop,
    coalesce(stop IS NOT NULL OR compared_at < now() - make_interval(secs => $1) OR compared_on <> this_database(), false) AS closed
FROM log_state

-- name: published the last checkpoint, and where the tree ends in the same instant; nothing where none was signed yet
SELECT s.published_size, s.size, s.open_tiles, c.note
FROM log_state s JOIN log_checkpoints c ON c.size = s.published_size

-- name: part_leaf the leaf of a part of one scope, the later one where it was lost and written again; without an index where it
-- waits for its place
SELECT e.idx, e.leaf
FROM parts p
LEFT JOIN log_entries e ON e.subject = p.evidence AND e.kind = 'part' AND e.scope_id = p.scope_id
    AND e.idx > coalesce((SELECT l.idx FROM lost_evidence l WHERE l.scope_id = p.scope_id AND l.evidence = p.evidence), -1)
WHERE p.scope_id = $1 AND p.evidence = $2
ORDER BY e.idx
LIMIT 1

-- name: entries some leaves in order, of all scopes
SELECT leaf FROM log_entries WHERE idx >= $1 AND idx < $2 ORDER BY idx

-- name: entry one leaf
SELECT leaf FROM log_entries WHERE idx = $1
