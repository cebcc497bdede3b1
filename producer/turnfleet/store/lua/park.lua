-- No live worker has all that the plan names: wait for one, saying what is missing. A recorded end comes first.
local run, claim, ttl, missing, text = take(), take(), take_number(), take(), take()
local facts, refusal, other = fenced(run, claim)
if refusal then
  local past = repeated(other, claim, 'park', 0)
  return past and { 'ended', past, false } or refusal
end
leave(run, facts, 'park', 0, now)
local earlier, payload = recorded_end(facts)
if earlier then
  end_with(run, facts, earlier, payload, ttl)
else
  enter(run, facts, 'park')
  set(run, 'missing', missing, 'parked', text)
  redis.call('HDEL', key('r', run), 'claim', 'lease')
  look(run, facts, nil)
end
left(run, facts)
return { 'ended', facts.state, false }
