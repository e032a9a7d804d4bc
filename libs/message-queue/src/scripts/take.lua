-- The turn to work on: processing's head, so that a lost reply and a new owner find it again; else pending's head, moved
-- to processing.
-- KEYS  lock, intact, pending, processing, ready
-- ARGV  token, lease TTL in ms, session
-- Reply {'taken', envelope} | {'empty'} | {'not_owner'}: nothing was touched
local lock, intact, pending, processing, ready = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttlMs, session = ARGV[1], ARGV[2], ARGV[3]

if not holds(lock, intact, token, ttlMs) then return { 'not_owner' } end
local envelope = redis.call('LINDEX', processing, 0)
if not envelope then
  envelope = redis.call('LMOVE', pending, processing, 'LEFT', 'RIGHT')
  -- Sessions that get on go to the back of the index: so those that nobody serves come to its front.
  if envelope then redis.call('ZADD', ready, nowMs(), session) end
end
if envelope then return { 'taken', envelope } end
redis.call('ZREM', ready, session)
return { 'empty' }
