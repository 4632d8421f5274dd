-- Which facts are over is asked for in pages, whose order is that of this index: of the runs of an erased subject all are over at the same
-- instant. Runs before the code that needs it; code of before asks this index as well as the one that it replaces.
-- Locks: whoever writes facts waits while the index is made, which is short: a row for each run that has any.
CREATE INDEX fact_runs_by_end_and_run ON fact_runs (scope_id, ends_at, run_uid);
DROP INDEX fact_runs_by_end;
ALTER INDEX fact_runs_by_end_and_run RENAME TO fact_runs_by_end;
