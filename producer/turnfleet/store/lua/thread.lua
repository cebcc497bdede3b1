-- The line of runs of one thread: join it at its end (once), leave it, or only look. Gives place, head, and who is in
-- front when that is asked for.
local action, thread, run = take(), take(), take()
local line = key('th', thread)
if action == 'join' and not redis.call('ZSCORE', line, run) then
  local last = redis.call('ZREVRANGE', line, 0, 0, 'WITHSCORES')
  redis.call('ZADD', line, int((tonumber(last[2]) or 0) + 1), run)
elseif action == 'leave' then
  redis.call('ZREM', line, run)
end
local place = run ~= '' and redis.call('ZRANK', line, run)
local front = {}
if action == 'front' and place and place > 0 then front = redis.call('ZRANGE', line, 0, int(place - 1)) end
return { place and int(place) or false, redis.call('ZRANGE', line, 0, 0)[1] or false, front }
