-- The next offer of a queued run, now. One whose eta lies ahead is only let go: it is offered when due.
local run = take()
local facts = load(run)
if not facts then return { 'unknown' } end
if facts.state ~= 'queued' then return { 'ok', false } end
if facts.eta and facts.eta > now then
  redis.call('HDEL', key('r', run), 'held')
  return { 'ok', false }
end
return { 'ok', next_offer(run, facts, FIRST_LOOK) }
