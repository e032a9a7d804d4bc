-- Marks a partition as a full copy of the ledger, if the filler's mark still stands.
-- KEYS  intact
-- ARGV  mark of the filler
-- Reply 1: done | 0: the mark is gone
-- Said again it answers 0, and the partition is intact.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], 'yes')
return 1
