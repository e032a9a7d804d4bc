-- Takes the lease of a session if nobody holds it.
-- KEYS  lock, intact
-- ARGV  token, lease TTL in ms
-- Reply {'acquired'} | {'held', present token} | {'not_intact'}: Redis lost this partition, it must be filled first
-- Said again by the holder of exactly this token, it answers 'acquired' and pushes the expiry out.
local lock, intact = KEYS[1], KEYS[2]
local token, ttlMs = ARGV[1], ARGV[2]

if redis.call('GET', intact) ~= 'yes' then return { 'not_intact' } end
local held = redis.call('GET', lock)
if held and held ~= token then return { 'held', held } end
redis.call('SET', lock, token, 'PX', ttlMs)
return { 'acquired' }
