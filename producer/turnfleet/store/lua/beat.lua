-- Renew leases. One that expired and that nobody took back is renewed like any other.
local lease = take_number()
local reply = {}
for _ = 1, take_number() do
  local run, claim = take(), take()
  local facts, refusal = fenced(run, claim)
  if refusal then
    reply[#reply + 1] = { '0', false, '0' }
  else
    set(run, 'beat', int(now), 'lease', int(now + lease))
    look(run, facts, now + lease)
    reply[#reply + 1] = { '1', facts.cancel, overdue(facts) and '1' or '0' }
  end
end
return reply
