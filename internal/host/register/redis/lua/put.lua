-- ARGV: seal, name, version, data. The floor is the greatest number of any name: whoever saw it
-- can tell if the server goes back, and a name may be forgotten.
local held = redis.call('HGET', lease, 'version')
if held then write() end -- a lease that exists goes on though memory is full; a new one does not begin
if not held or later(ARGV[3], held) then
  redis.call('HSET', lease, 'version', ARGV[3], 'data', ARGV[4])
  if not held then redis.call('ZADD', names, 1, ARGV[2]) end
  local seq = ARGV[3]:sub(1, 8)
  if later(seq, floor) then redis.call('HSET', store, 'floor', seq) end
end
return 0
