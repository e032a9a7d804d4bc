-- Sets a mark with an expiry unless somebody else's stands.
-- KEYS  mark
-- ARGV  value, TTL in ms
-- Reply 1: it is the caller's | 0: it is somebody else's
-- Said again by the same caller it pushes the expiry out.
local present = redis.call('GET', KEYS[1])
if present and present ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
