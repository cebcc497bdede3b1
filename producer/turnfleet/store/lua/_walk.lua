-- Walk an index from the newest to the oldest, from behind a position, until `limit` rows or `scan` entries.
-- Text order here is by bytes, as in a sorted set; Lua's own would follow the server's locale.
local function above(one, other)
  for place = 1, math.min(#one, #other) do
    local left, right = string.byte(one, place), string.byte(other, place)
    if left ~= right then return left > right end
  end
  return #one > #other
end

-- `row_of(run, at)` gives a row, false to leave it out, or nil when the run is gone (its entry is then dropped).
-- Gives the rows, and {at, run} where the walk stopped, or false when it saw the end.
local function walk(index, before, before_run, limit, scan, row_of)
  local rows, gone, seen, stopped = {}, {}, 0, false
  local function look_at(run, at)
    if before and tonumber(at) == tonumber(before) and not above(before_run, run) then return end
    local row = row_of(run, at)
    if row then rows[#rows + 1] = row elseif row == nil then gone[#gone + 1] = run end
  end
  while not stopped do
    local chunk = redis.call('ZREVRANGEBYSCORE', index, before or '+inf', '-inf', 'WITHSCORES', 'LIMIT', seen, 100)
    if #chunk == 0 then break end
    for place = 1, #chunk, 2 do
      seen = seen + 1
      look_at(chunk[place], chunk[place + 1])
      if #rows == limit or seen == scan then
        stopped = { chunk[place + 1], chunk[place] }
        break
      end
    end
  end
  -- A user who may only look leaves that to others.
  for _, run in ipairs(gone) do redis.pcall('ZREM', index, run) end
  return rows, stopped
end
