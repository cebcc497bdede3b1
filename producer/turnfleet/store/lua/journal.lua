-- A run's whole journal, in order.
local run = take()
if redis.call('EXISTS', key('r', run)) == 0 then return { 'unknown' } end
return { 'ok', redis.call('LRANGE', key('j', run), 0, -1) }
