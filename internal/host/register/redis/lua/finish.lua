-- The last step of restoring, after common. ARGV: seal, header, floor.
if later(ARGV[3], floor) then redis.call('HSET', store, 'floor', ARGV[3]) end
redis.call('HSET', store, 'header', ARGV[2])
redis.call('HDEL', store, 'lost', 'restoring')
return 0
