-- Puts the ledger's live turns in front of a session's line, in the ledger's order; whatever else stands in either list
-- stays behind them. Processing is emptied.
-- KEYS  lock, intact, pending, processing, ready
-- ARGV  token or '', lease TTL in ms, mark of the filler or '', session, name of a pod's channel without the pod, channel
--       of all pods, wake notice, then the envelopes
-- Reply 'restored' | 'not_allowed': neither the lock's holder nor the partition's filler; nothing was touched
-- Said again it leaves the same line; a turn taken in between stands in pending once more, which its owner's complete
-- removes.
local lock, intact, pending, processing, ready = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token, ttlMs, mark, session, channel, pods, wake = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local allowed
if token ~= '' then allowed = holds(lock, intact, token, ttlMs) else allowed = redis.call('GET', intact) == mark end
if not allowed then return 'not_allowed' end

local line, stands = {}, {}
local function append(envelope)
  if not stands[envelope] then
    stands[envelope] = true
    line[#line + 1] = envelope
  end
end
for at = 8, #ARGV do append(ARGV[at]) end
for _, envelope in ipairs(redis.call('LRANGE', processing, 0, -1)) do append(envelope) end
for _, envelope in ipairs(redis.call('LRANGE', pending, 0, -1)) do append(envelope) end
redis.call('DEL', pending, processing)
for _, envelope in ipairs(line) do redis.call('RPUSH', pending, envelope) end

if #line == 0 then
  redis.call('ZREM', ready, session)
else
  redis.call('ZADD', ready, 'NX', nowMs(), session)
  local owner = redis.call('GET', lock)
  redis.call('PUBLISH', owner and channel .. podOf(owner) or pods, wake)
end
return 'restored'
