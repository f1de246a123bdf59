-- ARGV: seal, name, writer. Marks him as one that left, if there is anything of his, and
-- answers as query does.
write()
local version, note = unpack(redis.call('HMGET', lease, 'version', ARGV[3]))
if note or version and version:sub(9) == ARGV[3] then
  redis.call('HSET', lease, 'left:' .. ARGV[3], '')
end
return {floor, redis.call('HGETALL', lease)}
