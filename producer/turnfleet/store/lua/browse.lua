-- A page of an index, newest first, and the index's size. Nothing is changed: entries of runs that are gone stay.
local index, wanted = take(), take_optional()
local before, before_run, limit, scan = take_optional(), take(), take_number(), take_number()
local function row_of(run, at)
  local values = redis.call('HMGET', key('r', run), 'state')
  if not values[1] or (wanted and wanted ~= values[1]) then return false end
  return { run, at }
end
local rows, stopped = walk(PREFIX .. index, before, before_run, limit, scan, row_of)
return { redis.call('ZCARD', PREFIX .. index), rows, stopped }
