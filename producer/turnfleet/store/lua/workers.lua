-- The announcements of workers that are alive; the others are dropped, unless this user may only look.
local bodies, dead = alive()
for _, worker in ipairs(dead) do redis.pcall('HDEL', PREFIX, worker) end
return bodies
