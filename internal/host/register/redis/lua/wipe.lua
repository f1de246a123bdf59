-- The second step, repeated until it returns 0: forgets some registers, but not the floor. ARGV:
-- the seal to come. KEYS[2] is here what the hashes of all names begin with.
if redis.call('HGET', KEYS[1], 'restoring') ~= ARGV[1] then return redis.error_reply('RESTORING by another') end
local some = redis.call('ZRANGE', KEYS[3], 0, 99)
for _, name in ipairs(some) do
  redis.call('DEL', KEYS[2] .. name)
  redis.call('ZREM', KEYS[3], name)
end
return #some
