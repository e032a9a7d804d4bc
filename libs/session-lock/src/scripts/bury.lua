-- Removes the lease of a pod that is gone.
-- KEYS  lock
-- ARGV  token, channel of its pod
-- Reply 1: the lock is free | 0: it is another one's, or somebody listens on the pod's channel
-- Asks both in one step: a pod that is back in time keeps its leases, and a token of the next owner is never touched.
local lock, token, channel = KEYS[1], ARGV[1], ARGV[2]

local held = redis.call('GET', lock)
if not held then return 1 end
if held ~= token then return 0 end
if redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0 then return 0 end
redis.call('DEL', lock)
return 1
