-- When a run last gave a sign that no other column keeps: it was declared again, or its facts were told. A run without a sign for long
-- is closed. Runs before the code that needs it; code of before leaves both as they are.
-- Locks: `runs` and `fact_runs`, whose writers wait a moment for that.

ALTER TABLE runs ADD COLUMN IF NOT EXISTS renewed_at timestamptz;
ALTER TABLE fact_runs ADD COLUMN IF NOT EXISTS told_at timestamptz NOT NULL DEFAULT now();

GRANT UPDATE (told_at) ON fact_runs TO custody_service;
