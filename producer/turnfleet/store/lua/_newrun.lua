-- A record that does not exist yet.
local function take_new()
  return { run = take(), digest = take(), tenant = take_optional(), eta = tonumber(take()), expires = tonumber(take()),
    held = take_flag(), fields = take_list() }
end

-- `arrived`: the run came as a message, so that its first offer is already out.
local function create(new, arrived)
  local facts = { state = 'queued', created = now, expires = new.expires }
  local waits = new.held or (new.eta and new.eta > now)
  local offered = arrived or not waits
  local ready = (new.eta and new.eta > now) and new.eta or now
  redis.call('HSET', key('r', new.run), 'state', 'queued', 'created', int(now), 'changed', int(now), 'attempt', '0',
    'losses', '0', 'previous', 'new', 'seq', '0', 'next', '0', 'ran', '0', 'reoffers', '0', 'offers',
    offered and '1' or '0', 'offered', int(now), 'ready', int(ready), unpack(new.fields))
  redis.call('ZADD', PREFIX .. 's:queued', int(now), new.run)
  if new.tenant then redis.call('ZADD', PREFIX .. 't:' .. new.tenant, int(now), new.run) end
  look(new.run, facts, ready > now and ready or now + FIRST_LOOK)
  return offered
end
