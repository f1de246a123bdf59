-- The third step: makes the empty store writable for who restores it, and nobody else, for
-- it has no header yet. ARGV: the seal to come, process, whether it keeps what it acknowledges.
if redis.call('HGET', KEYS[1], 'restoring') ~= ARGV[1] then return redis.error_reply('RESTORING by another') end
redis.call('HSET', KEYS[1], 'seal', ARGV[1], 'run', ARGV[2], 'kept', ARGV[3])
return 0
