-- The announcements that still hold, and the names of the workers whose do not.
local function alive()
  local all, bodies, dead = redis.call('HGETALL', PREFIX), {}, {}
  for place = 1, #all, 2 do
    local until_ms, body = string.match(all[place + 1], '^(%d+):(.*)$')
    if tonumber(until_ms) > now then
      bodies[#bodies + 1] = body
    else
      dead[#dead + 1] = all[place]
    end
  end
  return bodies, dead
end
