-- Pushes out the expiry of a filler's mark, if it still stands.
-- KEYS  intact
-- ARGV  mark of the filler, TTL in ms
-- Reply 1: done | 0: the mark is gone, or the partition is intact
-- Said again it does the same.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
