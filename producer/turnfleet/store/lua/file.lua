-- What a claim would give of a run, and its interrupts, all of one moment; without taking the run.
local run = take()
local record = redis.call('HGETALL', key('r', run))
if #record == 0 then return { 'unknown' } end
return { 'ok', record, redis.call('LRANGE', key('j', run), 0, -1), redis.call('HGETALL', key('i', run)) }
