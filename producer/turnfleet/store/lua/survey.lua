-- What stands in a shard, and changes nothing: how many runs there are in each state, which ones nobody looked at when
-- they were due, and of those that wait, or failed, the ones to hear of first.
local states, fields, limit, late = take_list(), take_list(), take_number(), take_number()
local function told(members)
  local rows = {}
  for place = 1, #members, 2 do
    local run = members[place]
    local values = redis.call('HMGET', key('r', run), unpack(fields))
    if values[1] then
      local people = values[1] == 'paused' and redis.call('HGETALL', key('i', run)) or {}
      rows[#rows + 1] = { run, members[place + 1], values, people }
    end
  end
  return rows
end
local function oldest(index)
  return told(redis.call('ZRANGE', index, 0, int(limit - 1), 'WITHSCORES'))
end
local counts, since = {}, int(now - late)
for place, state in ipairs(states) do counts[place] = redis.call('ZCARD', PREFIX .. 's:' .. state) end
return { int(now), counts, redis.call('ZCOUNT', DUE, '-inf', since),
  told(redis.call('ZRANGEBYSCORE', DUE, '-inf', since, 'WITHSCORES', 'LIMIT', 0, int(limit))),
  oldest(PREFIX .. 's:queued'), oldest(PREFIX .. 's:parked'), oldest(OPEN),
  told(redis.call('ZREVRANGE', PREFIX .. 's:failed', 0, int(limit - 1), 'WITHSCORES')) }
