-- Durable intent. Running: recorded, and its owner is told. Waiting: the run ends here. Ended: nothing changes.
local run, reason, ttl = take(), take(), take_number()
local facts = load(run)
if not facts then return { 'unknown' } end
if TERMINAL[facts.state] then return { 'ok', '0', facts.state, facts.thread } end
if not facts.cancel then set(run, 'cancel', reason) end
if facts.state == 'running' then
  redis.call('PUBLISH', CONTROL .. run, '{"cancel":' .. json(facts.cancel or reason) .. '}')
else
  end_with(run, facts, 'cancelled', '"reason":' .. json(reason), ttl)
end
return { 'ok', '1', facts.state, facts.thread }
