-- The run waits for people. A recorded end takes the pause's place; nothing open: the run is queued again at once.
local run, claim, ttl = take(), take(), take_number()
local writing = take_writing()
local event, usage = take_optional(), take_optional()
local waiting = {}
for place = 1, take_number() do
  waiting[place] = { id = take(), head = take(), body = take(), lasts = tonumber(take()), default = take_optional(),
    anew = take_flag() }
end
local facts, refusal, other = fenced(run, claim)
if refusal then
  local past = repeated(other, claim, 'pause', writing.seq)
  return past and { 'ended', past, past == 'queued' and offer(run, other) } or refusal
end
local misfit = gap(facts, writing)
if misfit then return misfit end

-- A decision stands for the same question only: another digest under the same id asks anew, and so does who says so.
local stored = {}
for _, each in ipairs(people_of(run)) do stored[each.id] = each end
local function stands(new)
  local old = stored[new.id]
  if new.anew or not old or not old.decision then return false end
  local head = cjson.decode(new.head)
  return old.head.kind == head.kind and old.head.digest == head.digest
end

local earlier, payload = recorded_end(facts)
if event and not earlier then add_event(writing, event) end
append(run, facts, writing)
leave(run, facts, 'pause', writing.seq, now)
if usage then set(run, 'usage', usage) end
local message = false
if earlier then
  end_with(run, facts, earlier, payload, ttl)
else
  local hash, place = key('i', run), redis.call('HLEN', key('i', run))
  for number, new in ipairs(waiting) do
    if not stands(new) then
      redis.call('HDEL', hash, 'x:' .. new.id, 'o:' .. new.id, 'd:' .. new.id, 'w:' .. new.id)
      redis.call('HSET', hash, 'h:' .. new.id, new.head, 'b:' .. new.id, new.body, 'n:' .. new.id, int(place + number))
      if new.lasts then redis.call('HSET', hash, 'x:' .. new.id, int(now + new.lasts)) end
      if new.default then redis.call('HSET', hash, 'o:' .. new.id, new.default) end
    end
  end
  local open, earliest = open_among(people_of(run))
  if open == 0 then
    message = requeue(run, facts, 'release', 'paused')
  else
    enter(run, facts, 'pause')
    redis.call('HDEL', key('r', run), 'claim', 'lease')
    redis.call('ZADD', OPEN, int(now), run)
    look(run, facts, earliest)
  end
end
left(run, facts)
return { 'ended', facts.state, message }
