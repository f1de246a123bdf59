-- ARGV: seal, name, writer, his note with its number in front
local held = redis.call('HGET', lease, ARGV[3])
if held then write() end
if not held or later(ARGV[4]:sub(1, 8), held:sub(1, 8)) then
  redis.call('HSET', lease, ARGV[3], ARGV[4])
  if not held then redis.call('ZADD', names, 'NX', 0, ARGV[2]) end
end
return 0
