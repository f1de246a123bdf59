-- ARGV: seal, name, the version that was judged ('' for none), 1 if the data goes too, then
-- each writer that goes with the note of his that was judged ('' for none). Nothing is
-- forgotten if any of this has changed. How far tokens went the floor remembers.
write()
local version = redis.call('HGET', lease, 'version') or ''
if version ~= ARGV[3] then return 0 end
for i = 5, #ARGV, 2 do
  if (redis.call('HGET', lease, ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
end
if ARGV[4] == '1' then
  redis.call('HDEL', lease, 'version', 'data')
  redis.call('ZADD', names, 0, ARGV[2])
end
for i = 5, #ARGV, 2 do
  redis.call('HDEL', lease, ARGV[i], 'left:' .. ARGV[i])
end
if redis.call('EXISTS', lease) == 0 then redis.call('ZREM', names, ARGV[2]) end
return 1
