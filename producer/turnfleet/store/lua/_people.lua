-- Interrupts and decisions. Fields of the hash, by id: h head (JSON that scripts read), b body (only carried), n place,
-- x expires (ms), o the decision then, d the decision taken, w who took it.
local function read_people(flat)
  local fields, list = {}, {}
  for place = 1, #flat, 2 do fields[flat[place]] = flat[place + 1] end
  for name, value in pairs(fields) do
    if string.sub(name, 1, 2) == 'h:' then
      local id = string.sub(name, 3)
      local expires = fields['x:' .. id]
      list[#list + 1] = { id = id, head = cjson.decode(value), place = tonumber(fields['n:' .. id]),
        expires = expires and tonumber(expires), default = fields['o:' .. id], decision = fields['d:' .. id],
        who = fields['w:' .. id] }
    end
  end
  table.sort(list, function(one, other) return one.place < other.place end)
  return list
end

local function people_of(run)
  return read_people(redis.call('HGETALL', key('i', run)))
end

-- How many are open, and when the first of those expires.
local function open_among(list)
  local open, earliest = 0, nil
  for _, each in ipairs(list) do
    if not each.decision then
      open = open + 1
      if each.expires and (not earliest or each.expires < earliest) then earliest = each.expires end
    end
  end
  return open, earliest
end

local function may_decide(each, roles)
  if #each.head.roles == 0 then return true end
  for _, allowed_role in ipairs(each.head.roles) do
    for _, role in ipairs(roles) do
      if role == allowed_role then return true end
    end
  end
  return false
end

-- Take a decision: once in the hash, once in the journal. `proof` (JSON) is for the worker that acts on it.
local function decide(run, facts, each, decision, by, decision_id, proof)
  local who = '"by":' .. json(by) .. ',"decision_id":' .. (decision_id and json(decision_id) or 'null')
  redis.call('HSET', key('i', run), 'd:' .. each.id, decision, 'w:' .. each.id,
    '{' .. who .. ',"at_ms":' .. int(now) .. '}')
  redis.call('RPUSH', key('j', run), '{"k":"decision","interrupt":' .. json(each.id) .. ',"decision":' .. decision
    .. ',' .. who .. (proof and ',"proof":' .. proof or '') .. ',"at":' .. int(facts.next) .. '}')
  each.decision = decision
end

-- After decisions: claimable (gives the offer) when none is open, else due when the next one expires (gives false).
local function settle(run, facts, list)
  local open, earliest = open_among(list)
  if open > 0 then
    look(run, facts, earliest)
    return false
  end
  redis.call('ZREM', OPEN, run)
  set(run, 'losses', '0')
  return requeue(run, facts, 'resume', 'paused')
end
