-- A worker that fits has come: the run goes on as what it was when it was parked.
local run = take()
local facts = load(run)
if not facts then return { 'unknown' } end
if not allowed('unpark', facts.state) then return { 'ok', false } end
redis.call('HDEL', key('r', run), 'missing', 'parked')
return { 'ok', requeue(run, facts, 'unpark', facts.previous) }
