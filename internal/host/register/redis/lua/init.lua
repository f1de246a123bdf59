-- KEYS as everywhere. ARGV: header, seal, process, whether it keeps what it acknowledges.
if redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HGET', KEYS[1], 'header') == ARGV[1]
  and redis.call('HEXISTS', KEYS[1], 'seal') == 1 then
  return 0 -- the same call, repeated
end
if redis.call('EXISTS', KEYS[1], KEYS[3]) > 0 then return redis.error_reply('EXISTS something else') end
redis.call('HSET', KEYS[1], 'header', ARGV[1], 'seal', ARGV[2], 'run', ARGV[3], 'kept', ARGV[4])
return 1
