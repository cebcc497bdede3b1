-- A page of a shard's runs with open interrupts, for one role or for all.
local role, tenant = take_optional(), take_optional()
local before, before_run, limit, scan = take_optional(), take(), take_number(), take_number()
local function concerns(list)
  for _, each in ipairs(list) do
    if not each.decision and (not role or may_decide(each, { role })) then return true end
  end
  return false
end
local function row_of(run, at)
  local record = redis.call('HMGET', key('r', run), 'state', 'plan_name', 'tenant')
  if not record[1] then return nil end
  if tenant and tenant ~= record[3] then return false end
  local flat = redis.call('HGETALL', key('i', run))
  if not concerns(read_people(flat)) then return false end
  return { run, at, record[2], record[3], flat }
end
return { walk(OPEN, before, before_run, limit, scan, row_of) }
