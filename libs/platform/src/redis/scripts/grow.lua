-- Advances a record, a hash that only ever grows, to `rank`, sets its fields (name, value, …) and renews its expiry.
-- Answers whether it did: a record that has this rank or a higher one stays as it is.
local function grow(key, rank, ttlMs, ...)
  if tonumber(redis.call('HGET', key, 'rank') or 0) >= tonumber(rank) then return false end
  redis.call('HSET', key, 'rank', rank, ...)
  redis.call('PEXPIRE', key, ttlMs)
  return true
end
