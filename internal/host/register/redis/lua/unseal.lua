-- The first step of restoring. ARGV: the seal to come, the header. Whoever has the store open is
-- refused from here on. What is not ours is not touched.
local header, restoring = unpack(redis.call('HMGET', KEYS[1], 'header', 'restoring'))
if header and header ~= ARGV[2] or not header and not restoring and redis.call('EXISTS', KEYS[1], KEYS[3]) > 0 then
  return redis.error_reply('EXISTS something else')
end
redis.call('HSET', KEYS[1], 'lost', 'it is being restored', 'restoring', ARGV[1])
redis.call('HDEL', KEYS[1], 'seal', 'header')
return 0
