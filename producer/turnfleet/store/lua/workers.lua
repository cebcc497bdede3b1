-- The announcements of workers that are alive; the others are dropped.
local bodies, dead = alive()
for _, worker in ipairs(dead) do redis.call('HDEL', PREFIX, worker) end
return bodies
