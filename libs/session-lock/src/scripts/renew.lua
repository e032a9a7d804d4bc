-- Pushes out the expiry of many leases of one partition.
-- KEYS  intact, then the locks
-- ARGV  lease TTL in ms, then the holders' tokens, in the order of the locks
-- Reply for each lock, 1: it is still (or again) the holder's; 0: it is lost
-- To be called only for leases that their holder still trusts: where the partition is not intact, locks are set again.
local intact, ttlMs = KEYS[1], ARGV[1]
local still = {}

for at = 2, #KEYS do
  local lock, token = KEYS[at], ARGV[at]
  local mine = holds(lock, intact, token, ttlMs)
  if mine then redis.call('PEXPIRE', lock, ttlMs) end
  still[at - 1] = mine and 1 or 0
end
return still
