-- A worker says that it is alive until now + ttl; an empty body takes it back. The hash outlives its last entry by none.
-- The answer is the time here (ms), which tells the worker how far its own clock is off.
local worker, body, ttl = take(), take(), take_number()
if body == '' then
  redis.call('HDEL', PREFIX, worker)
else
  redis.call('HSET', PREFIX, worker, int(now + ttl) .. ':' .. body)
  if redis.call('PTTL', PREFIX) < ttl then redis.call('PEXPIRE', PREFIX, int(ttl)) end
end
return int(now)
