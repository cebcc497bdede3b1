-- A worker takes a queued, due run. A repeat by the same claim (its reply was lost) gets the same claim.
local run, claim, worker, lease, task = take(), take(), take(), take_number(), take_optional()
local recorded, digest, carried, suspect_from = take_flag(), take_optional(), take_flag(), take_number()
local facts = load(run)
if not facts then
  if recorded or not carried then return { 'not', 'gone', '' } end
  create(take_new(), true)
  facts = load(run)
end
if digest and digest ~= facts.digest then return { 'not', 'digest', facts.state } end
if not (facts.state == 'running' and facts.claim == claim) then
  if not allowed('claim', facts.state) then return { 'not', 'state', facts.state } end
  if overdue(facts) then return { 'not', 'state', 'expired' } end
  if facts.eta and facts.eta > now then return { 'not', 'early', facts.state } end
  if suspect_from > 0 and facts.losses >= suspect_from then return { 'not', 'suspect', facts.state } end
  enter(run, facts, 'claim')
  set(run, 'claim', claim, 'worker', worker, 'attempt', int(facts.attempt + 1), 'claimed', int(now), 'beat', int(now),
    'lease', int(now + lease), 'started', int(facts.started or now))
  redis.call('HDEL', key('r', run), 'held', 'task')
  if task then set(run, 'task', task) end
  look(run, facts, now + lease)
end
return { 'claim', redis.call('HGETALL', key('r', run)), redis.call('LRANGE', key('j', run), 0, -1) }
