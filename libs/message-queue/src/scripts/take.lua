-- The turn to work on: processing's head, so that a lost reply and a new owner find it again; else pending's head, moved
-- to processing. A turn that is done is first removed from the line, and its end recorded.
-- KEYS  lock, intact, pending, processing, ready, then, if a turn is done: its record
-- ARGV  token, lease TTL in ms, session, then, if a turn is done: its envelope, then, unless the record is to be left: rank,
--       record TTL in ms, state, generation, sessionId
-- Reply {'taken', envelope} | {'empty'} | {'not_owner'}: nothing was touched
-- Said again it finds nothing to remove and answers the same.
local lock, intact, pending, processing, ready, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, ttlMs, session, done = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local rank, recordTtlMs, state, generation, sessionId = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]

if not holds(lock, intact, token, ttlMs) then return { 'not_owner' } end
if done then
  redis.call('LREM', pending, 0, done)
  redis.call('LREM', processing, 0, done)
  if rank then grow(record, rank, recordTtlMs, 'state', state, 'generation', generation, 'session', sessionId) end
end

local envelope = redis.call('LINDEX', processing, 0)
if not envelope then
  envelope = redis.call('LMOVE', pending, processing, 'LEFT', 'RIGHT')
  -- Sessions that get on go to the back of the index: so those that nobody serves come to its front.
  if envelope then redis.call('ZADD', ready, nowMs(), session) end
end
if envelope then return { 'taken', envelope } end
redis.call('ZREM', ready, session)
return { 'empty' }
