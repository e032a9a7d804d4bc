-- Puts a turn at the end of its session's line and wakes the owner, unless the record says that the turn is over.
-- KEYS  lock, pending, processing, ready, turn record
-- ARGV  envelope, session, rank of queued, rank of an end, record TTL in ms, generation, sessionId, initiator, parent or '',
--       name of a pod's channel without the pod, wake notice
-- Reply {'ended'}: this generation, or a later one, is over; nothing was done | {'queued', owner's token or ''}
-- Said again it changes nothing: a turn stands in the line once.
local lock, pending, processing, ready, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local envelope, session, queued, ended, ttlMs = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local generation, sessionId, initiator, parent, channel, wake = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]

if tonumber(redis.call('HGET', record, 'rank') or 0) >= ended then return { 'ended' } end
grow(record, queued, ttlMs, 'state', 'queued', 'generation', generation)
redis.call('HSET', record, 'session', sessionId, 'initiator', initiator, 'parent', parent)
if not redis.call('LPOS', pending, envelope) and not redis.call('LPOS', processing, envelope) then
  redis.call('RPUSH', pending, envelope)
end
redis.call('ZADD', ready, 'NX', nowMs(), session)

local owner = redis.call('GET', lock)
if not owner then return { 'queued', '' } end
redis.call('PUBLISH', channel .. podOf(owner), wake)
return { 'queued', owner }
