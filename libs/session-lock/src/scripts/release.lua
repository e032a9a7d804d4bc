-- Gives a lease back.
-- KEYS  lock, intact, pending, processing
-- ARGV  token, lease TTL in ms, manner: 'idle' | 'leave' | 'back_off', channel of all pods, wake notice
-- Reply 'released' | 'work': something waits, the lease is kept (only for 'idle') | 'not_owner': nothing was touched
-- 'leave' tells all pods when something waits. Said again after it was released, it answers 'not_owner'.
local lock, intact, pending, processing = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, ttlMs, manner, pods, wake = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if not holds(lock, intact, token, ttlMs) then return 'not_owner' end
local waits = redis.call('EXISTS', pending, processing) > 0
if manner == 'idle' and waits then return 'work' end
redis.call('DEL', lock)
if manner == 'leave' and waits then redis.call('PUBLISH', pods, wake) end
return 'released'
