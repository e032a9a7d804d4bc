-- Whether turns stand in either list of their session.
-- KEYS  pending, processing
-- ARGV  the envelopes
-- Reply for each, 1: it does; 0: it does not
local stands = {}
for _, list in ipairs(KEYS) do
  for _, envelope in ipairs(redis.call('LRANGE', list, 0, -1)) do stands[envelope] = true end
end
local answer = {}
for at, envelope in ipairs(ARGV) do answer[at] = stands[envelope] and 1 or 0 end
return answer
