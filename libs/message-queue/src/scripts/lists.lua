-- Both lists of a session as they stand at one moment.
-- KEYS  pending, processing
-- Reply {pending, processing}
return { redis.call('LRANGE', KEYS[1], 0, -1), redis.call('LRANGE', KEYS[2], 0, -1) }
