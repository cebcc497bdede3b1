-- The announcements of workers that are alive; the others are dropped.
local all, bodies = redis.call('HGETALL', PREFIX), {}
for place = 1, #all, 2 do
  local until_ms, body = string.match(all[place + 1], '^(%d+):(.*)$')
  if tonumber(until_ms) > now then
    bodies[#bodies + 1] = body
  else
    redis.call('HDEL', PREFIX, all[place])
  end
end
return bodies
