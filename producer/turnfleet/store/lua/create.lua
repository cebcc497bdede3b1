-- A run to be: once per run id. The same digest again is the same run; another one is refused.
local new = take_new()
local facts = load(new.run)
if facts then
  return { facts.digest == new.digest and 'existed' or 'conflict', facts.state, '0' }
end
return { 'created', 'queued', create(new, false) and '1' or '0' }
