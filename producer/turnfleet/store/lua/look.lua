-- Fields of a run's record, and its interrupts when asked for.
local run, people = take(), take_flag()
local record = key('r', run)
if redis.call('EXISTS', record) == 0 then return { 'unknown' } end
return { 'ok', redis.call('HMGET', record, unpack(take_list())), people and redis.call('HGETALL', key('i', run)) or {} }
