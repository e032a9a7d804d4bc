-- Removes a turn from the line and records its end.
-- KEYS  lock, intact, pending, processing, ready, turn record
-- ARGV  token, lease TTL in ms, session, envelope, then, unless the record is to be left: rank, record TTL in ms, state,
--       generation, sessionId
-- Reply 'completed' | 'not_owner': nothing was touched
-- Said again it finds nothing to remove.
local lock, intact, pending, processing, ready, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, ttlMs, session, envelope = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local rank, recordTtlMs, state, generation, sessionId = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]

if not holds(lock, intact, token, ttlMs) then return 'not_owner' end
redis.call('LREM', pending, 0, envelope)
redis.call('LREM', processing, 0, envelope)
if rank then grow(record, rank, recordTtlMs, 'state', state, 'generation', generation, 'session', sessionId) end
if redis.call('EXISTS', pending, processing) == 0 then redis.call('ZREM', ready, session) end
return 'completed'
