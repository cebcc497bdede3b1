-- A page of each of some indexes of a shard: fields of the record, and the interrupts, open and decided.
local indexes, wanted = take_list(), take_optional()
local before, before_run, limit, scan, fields = take_optional(), take(), take_number(), take_number(), take_list()
local function row_of(run)
  local values = redis.call('HMGET', key('r', run), unpack(fields))
  local state = values[1]
  if not state then return nil end
  if wanted and wanted ~= state then return false end
  return { run, values, redis.call('HGETALL', key('i', run)) }
end
local pages = {}
for place, index in ipairs(indexes) do
  pages[place] = { walk(PREFIX .. index, before, before_run, limit, scan, row_of) }
end
return pages
