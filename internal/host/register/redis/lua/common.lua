-- Every operation begins with this, after later.lua. KEYS: the store's own hash, the hash of one name, the
-- index of names. ARGV[1] is the seal under which the caller opened the store.
local store, lease, names = KEYS[1], KEYS[2], KEYS[3]
local seal, floor, lost = unpack(redis.call('HMGET', store, 'seal', 'floor', 'lost'))
if seal ~= ARGV[1] then
  if lost then return redis.error_reply('STALE ' .. lost) end
  return redis.error_reply('GONE no store, or another')
end
floor = floor or string.rep('\0', 8)

-- write changes nothing, but Redis takes it for a write. So a replica refuses it: none answers for
-- its master. And so a server whose memory is full lets what follows through, for it looks at that
-- before the first write only.
local function write() redis.call('PERSIST', store) end
