-- Advances a turn's lifecycle record to what the ledger decided, and tells the session's owner where that is a stop.
-- KEYS  turn record, lock
-- ARGV  rank, record TTL in ms, state, generation, sessionId, name of a pod's channel without the pod, stop notice or ''
-- Reply 1: that was news | 0: the record says this already, or more
-- The notice is sent again when it is asked for again: the first one may have been lost.
local record, lock = KEYS[1], KEYS[2]
local rank, ttlMs, state, generation, sessionId, channel, stop = unpack(ARGV)

local news = grow(record, rank, ttlMs, 'state', state, 'generation', generation, 'session', sessionId)
local again = redis.call('HGET', record, 'rank') == rank and redis.call('HGET', record, 'state') == state
if stop ~= '' and (news or again) then
  local owner = redis.call('GET', lock)
  if owner then redis.call('PUBLISH', channel .. podOf(owner), stop) end
end
return news and 1 or 0
