-- ARGV: seal, the server process that answers, whether it keeps what it acknowledges, and what
-- to say if it is another one than before and may have lost writes. The process is '' if the
-- server does not tell.
write()
local run, kept = unpack(redis.call('HMGET', store, 'run', 'kept'))
if ARGV[2] == '' or run == ARGV[2] then
  if kept == '1' and ARGV[3] ~= '1' then redis.call('HSET', store, 'kept', '0') end
  return 0
end
if run == '' or kept == '1' and ARGV[3] == '1' then
  redis.call('HSET', store, 'run', ARGV[2])
  return 0
end
redis.call('HDEL', store, 'seal')
redis.call('HSET', store, 'lost', ARGV[4])
return redis.error_reply('STALE ' .. ARGV[4])
