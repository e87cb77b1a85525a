-- The queue file. Times are nanoseconds since 1970; 0 means not (yet). States are those of package ledger:
-- 0 ready, 1 suspect (ready), 2 delayed, 3 leased, 4 succeeded, 5 dead, 6 cancelled, 7 expired.

CREATE TABLE file (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  token INTEGER NOT NULL             -- the highest fencing token that was given out
) STRICT;
INSERT INTO file VALUES (1, 0);

-- One row a queue, with its kept numbers: nothing is ever counted by scanning.
CREATE TABLE queue (
  queue INTEGER PRIMARY KEY,
  name  TEXT NOT NULL UNIQUE,
  epoch TEXT NOT NULL,               -- changes when the totals restart
  ready INTEGER NOT NULL DEFAULT 0, suspect INTEGER NOT NULL DEFAULT 0, delayed INTEGER NOT NULL DEFAULT 0,
  leased INTEGER NOT NULL DEFAULT 0, succeeded INTEGER NOT NULL DEFAULT 0, dead INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0, expired INTEGER NOT NULL DEFAULT 0,
  arrivals INTEGER NOT NULL DEFAULT 0, completions INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
  total_succeeded INTEGER NOT NULL DEFAULT 0, total_dead INTEGER NOT NULL DEFAULT 0,
  total_cancelled INTEGER NOT NULL DEFAULT 0, total_expired INTEGER NOT NULL DEFAULT 0,
  nacked INTEGER NOT NULL DEFAULT 0, released INTEGER NOT NULL DEFAULT 0, crashed INTEGER NOT NULL DEFAULT 0,
  lost INTEGER NOT NULL DEFAULT 0, redriven INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What changes about a job. A row is small and updated in place. job_order splits the hot states from the history: a
-- claim walks the ready part of it alone, however many jobs stand, are held or have ended.
CREATE TABLE job (
  seq        INTEGER PRIMARY KEY,    -- the order of publishing
  id         BLOB NOT NULL UNIQUE,   -- the UUIDv7 that users see
  queue      INTEGER NOT NULL,
  state      INTEGER NOT NULL,
  at         INTEGER NOT NULL,       -- orders jobs of one state: became ready, is due, was leased, ended
  tenant     TEXT NOT NULL,
  priority   INTEGER NOT NULL,
  attempts   INTEGER NOT NULL DEFAULT 0,
  crashes    INTEGER NOT NULL DEFAULT 0,
  redrives   INTEGER NOT NULL DEFAULT 0,
  arrived    INTEGER NOT NULL,       -- it became due at least once, and was counted
  enqueued_at INTEGER NOT NULL,
  ready_at   INTEGER NOT NULL,
  started_at INTEGER NOT NULL DEFAULT 0,
  expires_at INTEGER NOT NULL,
  token      INTEGER NOT NULL DEFAULT 0, -- of the last lease
  worker     TEXT NOT NULL DEFAULT '',
  max_at     INTEGER NOT NULL DEFAULT 0, -- when that lease ends whatever its holder says
  cancel     INTEGER NOT NULL DEFAULT 0,
  settled_token INTEGER NOT NULL DEFAULT 0, -- the last lease that was settled, and how
  settled    TEXT NOT NULL DEFAULT '',
  error      TEXT NOT NULL DEFAULT '',
  dead_reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX job_order ON job (queue, state, at);  -- and by rowid, which every index ends with
CREATE INDEX job_expiry ON job (queue, expires_at) WHERE expires_at > 0 AND state <= 2;

-- What never changes about a job, inserted once.
CREATE TABLE payload (
  seq     INTEGER PRIMARY KEY,
  key     BLOB,
  headers BLOB,                      -- count, then length-prefixed names and values
  body    BLOB NOT NULL
) STRICT;

CREATE TABLE result (
  seq  INTEGER PRIMARY KEY,
  body BLOB NOT NULL
) STRICT;

-- Idempotency keys: one lives exactly as long as its job is kept.
CREATE TABLE dedupe (
  queue INTEGER NOT NULL,
  key   BLOB NOT NULL,
  seq   INTEGER NOT NULL,
  PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
