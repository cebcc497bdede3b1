-- The end of a run. A cancel or an expiry that was recorded first takes the place of the end that was brought.
local run, claim, ttl = take(), take(), take_number()
local writing = take_writing()
local state, event = take(), take()
local outcome, failure, usage = take_optional(), take_optional(), take_optional()
local facts, refusal, other = fenced(run, claim)
if refusal then
  local past = repeated(other, claim, 'finish', writing.seq)
  return past and { 'ended', past, false } or refusal
end
local misfit = gap(facts, writing)
if misfit then return misfit end
local earlier, payload = recorded_end(facts)
if not earlier then add_event(writing, event) end
append(run, facts, writing)
leave(run, facts, 'finish', writing.seq, now)
if usage then set(run, 'usage', usage) end
if earlier then
  end_with(run, facts, earlier, payload, ttl)
else
  if outcome then set(run, 'outcome', outcome) end
  if failure then set(run, 'error', failure) end
  terminate(run, facts, ENDINGS[state], ttl)
end
left(run, facts)
return { 'ended', facts.state, false }
