-- Journal entries and events of one step. The same seq again is a repeat; `effect`: refused once the end is recorded.
local run, claim, effect = take(), take(), take_flag()
local writing = take_writing()
local facts, refusal = fenced(run, claim)
if refusal then return refusal end
if writing.seq == facts.seq then return { 'ok', facts.cancel } end
local misfit = gap(facts, writing)
if misfit then return misfit end
if effect and recorded_end(facts) then return { 'ok', facts.cancel or 'expires passed' } end
append(run, facts, writing)
return { 'ok', facts.cancel }
