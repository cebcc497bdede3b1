-- A hand-back: the run is queued again and nothing is spent. A recorded end is written instead.
local run, claim, ttl = take(), take(), take_number()
local writing = take_writing()
local facts, refusal, other = fenced(run, claim)
if refusal then
  local past = repeated(other, claim, 'release', writing.seq)
  if past then return { 'ended', past, past == 'queued' and offer(run, other) } end
  return refusal
end
local misfit = gap(facts, writing)
if misfit then return misfit end
append(run, facts, writing)
leave(run, facts, 'release', writing.seq, now)
local earlier, payload = recorded_end(facts)
local message = false
if earlier then
  end_with(run, facts, earlier, payload, ttl)
else
  message = requeue(run, facts, 'release', 'released')
end
left(run, facts)
return { 'ended', facts.state, message }
