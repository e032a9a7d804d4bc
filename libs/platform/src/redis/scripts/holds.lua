-- Whether `token`, spelled `<holder>/<epoch>`, holds the lock. Every script that acts for a holder begins with this.
-- While the partition is not intact (Redis lost it), a lock that is absent or of a lower epoch is set again: so losing
-- Redis' memory does not end the work of living holders. Changes nothing when it answers false.
local function holds(lock, intact, token, ttlMs)
  local held = redis.call('GET', lock)
  if held == token then return true end
  if redis.call('GET', intact) == 'yes' then return false end
  if held and tonumber(string.match(held, '%d+$')) >= tonumber(string.match(token, '%d+$')) then return false end
  redis.call('SET', lock, token, 'PX', ttlMs)
  return true
end
